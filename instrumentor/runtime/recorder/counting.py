"""FLOPs of what runs eagerly, counted op by op as torch.utils.flop_counter counts them."""

import gc
import sys
from importlib import import_module
from typing import Any


class Counting:
    """Between start and stop; stays out of what torch.compile would then not compile."""

    def __init__(self) -> None:
        self.total = 0
        self.mode: Any = None

    def start(self) -> None:
        """Begin, when nothing in this process is compiled and this torch can count."""
        if "torch" not in sys.modules or compiles():
            return
        try:
            base: Any = import_module("torch.utils._python_dispatch").TorchDispatchMode
            formulas = import_module("torch.utils.flop_counter").flop_registry
        except (ImportError, AttributeError):
            return

        def dispatched(mode: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            out = func(*args, **(kwargs or {}))
            formula = formulas.get(func._overloadpacket)
            if formula is not None:
                self.total += formula(*args, **(kwargs or {}), out_val=out)
            return out

        self.mode = type("Mode", (base,), {"__torch_dispatch__": dispatched})()
        self.mode.__enter__()

    def stop(self) -> int:
        """End; returns the FLOPs, 0 when nothing was counted."""
        if self.mode is not None:
            mode, self.mode = self.mode, None
            dispatch = import_module("torch.utils._python_dispatch")
            if dispatch._get_current_dispatch_mode() is mode:  # and none of the script's on top
                mode.__exit__(None, None, None)
        return self.total


def compiles() -> bool:
    """Whether the script has handed anything to torch.compile."""
    if "torch._dynamo" not in sys.modules:
        return False
    function = type(compiles)
    for each in gc.get_objects():
        known = getattr(each, "__dict__", None) if type(each) is function else None
        if known and "_torchdynamo_orig_callable" in known and "_torchdynamo_disable" not in known:
            return True
    return False
