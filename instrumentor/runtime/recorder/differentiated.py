"""What the last backward of a region started from: that tells the device, whatever it is called.

A loss that a helper keeps to itself is seen as well. It is not kept alive: a lazy device would make
it a result of its graph. Where it is gone when the region ends, the leaves it was made of tell.
"""

import sys
import weakref
from typing import Any, List, Sequence

from instrumentor.runtime.recorder.step_tensors import trained
from instrumentor.runtime.recorder.watch import Watch


class Differentiated(Watch):
    """Notes what enters the autograd engine; one call of Python more for each backward."""

    def __init__(self) -> None:
        super().__init__(lambda event: None)
        self.roots: List[Any] = []  # weak references
        self.leaves: List[Any] = []  # of the first backward
        self.open = False

    def begin(self) -> None:
        """A region begins."""
        self.roots, self.open = [], True
        torch = sys.modules.get("torch")
        if not self.undo and hasattr(torch, "autograd"):
            self.on_backwards()

    def take(self) -> Sequence[Any]:
        """The region ends: what its last backward started from, or what that was made of."""
        roots, self.roots, self.open = [root() for root in self.roots], [], False
        alive = [root for root in roots if root is not None]
        return alive or ([self.leaves] if roots and self.leaves else ())

    def off(self) -> None:
        """Put torch's own function back, and hold no parameter any longer."""
        super().off()
        self.leaves = []

    def backward(self, real: Any) -> Any:
        """Around torch.autograd's entry into the engine."""

        def instrument_backward(tensors: Any, *args: Any, **kwargs: Any) -> Any:
            result = real(tensors, *args, **kwargs)
            if self.open:  # behind it: one within another has been left by then
                self.note(tensors if isinstance(tensors, (list, tuple)) else (tensors,))
            return result

        return instrument_backward

    def note(self, roots: Sequence[Any]) -> None:
        """Remember what was differentiated, without keeping it."""
        try:
            self.leaves = self.leaves or trained(roots)
            self.roots = [weakref.ref(root) for root in roots]
        except Exception:  # a tensor class of the script's own: the optimizers tell, too
            self.roots = []
