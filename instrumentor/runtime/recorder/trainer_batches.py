"""Which batches a trainer of an installed package takes for each step, by its loader.

No line of the script has a name for them there, and the trainer may fetch several for one update,
or the next one ahead of its step. So the batches of torch's loaders wait in a queue, of which each
step uses as many as are fetched for one.
"""

from typing import Any, Dict, List, Optional

from instrumentor.runtime.recorder.forward_inputs import Shape, batch_shape


class Handed:
    """The batches that data loaders have handed out, and no step has used yet."""

    def __init__(self) -> None:
        self.waiting: Dict[int, List[Shape]] = {}  # by the dataset that they are from
        self.before: Optional[Dict[int, int]] = None  # numbers of them, when a step ended last
        self.source = 0  # the dataset that is trained on, once it is known
        self.each: Optional[int] = None  # batches of a step; 0 where there are several loaders

    def note(self, frame: Any) -> None:
        """A loader hands out a batch.

        Args:
            frame: of the ``__next__`` of torch's iterator, which has it as `data`.
        """
        iterator, data = (frame.f_locals.get(name) for name in ("self", "data"))
        # Without collation the first axis of what is handed out need not be that of samples.
        if data is not None and self.each != 0 and getattr(iterator, "_auto_collation", False):
            source = id(getattr(iterator, "_dataset", None))
            self.waiting.setdefault(source, []).append(batch_shape(data))

    def stepped(self) -> List[Shape]:
        """An optimizer has stepped: the batches of that step; none where they are not known."""
        now = {source: len(batches) for source, batches in self.waiting.items()}
        before, self.before = self.before, now
        if self.each is None and before is not None:
            fetched = {each: count - before.get(each, 0) for each, count in now.items()}
            self.settle({each: count for each, count in fetched.items() if count}, before)
        if not self.each:
            return []
        batches = self.waiting[self.source]
        used, self.waiting[self.source] = batches[: self.each], batches[self.each :]
        return used

    def settle(self, fetched: Dict[int, int], before: Dict[int, int]) -> None:
        """Conclude from what was fetched between two steps.

        Args:
            fetched: how many batches, by their dataset.
            before: how many there were already, at the first of the two.
        """
        if len(fetched) == 1:
            ((self.source, self.each),) = fetched.items()
            # The step before used as many; what else there was, was fetched ahead.
            del self.waiting[self.source][: min(self.each, before.get(self.source, 0))]
        elif fetched:
            self.each = 0
            self.waiting.clear()
