"""Which tiles of a tensor a simulated kernel reads and writes, and who wrote them, by position.

A byte for each tile, and a number for one that is written: 200 kB for a tensor of 8192 x 8192.
Loaded beside :mod:`instrumentor.runtime.kernel_simulation` in the script's interpreter: standard
library only.
"""

from __future__ import annotations

import itertools
import math
from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import Any

#: Of a tensor with more tiles (elements, where it is not tiled) no positions are kept.
MOST = 1 << 22
#: Pairs of writers of one tile that are kept as examples.
EXAMPLES = 8
#: Writers that are told apart; all others count as one.
_WRITERS = 1 << 15
#: What is known of a tile.
NEVER, ONCE, AGAIN, SHARED, DIFFERING = range(5)

#: Node, thread, file and line of a write.
Writer = tuple[int, str, str, int]


class Reached:
    """The tiles of one tensor, and which of them were reached.

    Args:
        extents: of the tensor in tiles.
    """

    def __init__(self, extents: Sequence[int]) -> None:
        self.extents = tuple(extents)
        self.states = bytearray(math.prod(self.extents))
        self.unplaced = 0

    def reach(self, first: Sequence[int], extents: Sequence[int]) -> None:
        """A block was read."""
        for at, end in self._rows(first, extents):
            self.states[at:end] = bytes((ONCE,)) * (end - at)

    def coordinates(self, tile: int) -> tuple[int, ...]:
        """A tile's place in the tensor."""
        found: list[int] = []
        for extent in reversed(self.extents):
            found.insert(0, tile % extent)
            tile //= extent
        return tuple(found)

    def summed(self) -> dict[str, Any]:
        """What was never reached, as JSON types.

        ``never``: how many tiles. ``box`` holds the first and the last of them by extent, ``first``
        the first of all; both are empty where there are none.
        """
        never = self.states.count(NEVER)
        return {
            "never": never,
            "unplaced": self.unplaced,
            "box": self._box() if never else [],
            "first": list(self.coordinates(self.states.find(NEVER))) if never else [],
        }

    def _rows(self, first: Sequence[int], extents: Sequence[int]) -> Iterator[tuple[int, int]]:
        """Where each row of a block begins and ends in the tensor."""
        *outer, last = (range(at, at + extent) for at, extent in zip(first, extents, strict=True))
        for place in itertools.product(*outer):
            at = 0
            for coordinate, extent in zip((*place, last.start), self.extents, strict=True):
                at = at * extent + coordinate
            yield at, at + len(last)

    def _box(self) -> list[list[int]]:
        low, high, width = list(self.extents), [0] * len(self.extents), self.extents[-1]
        for start in range(0, len(self.states), width):
            first = self.states.find(NEVER, start, start + width)
            if first >= 0:
                last = self.states.rfind(NEVER, start, start + width)
                low = list(map(min, low, self.coordinates(first)))
                high = list(map(max, high, self.coordinates(last)))
        return [list(pair) for pair in zip(low, high, strict=True)]


class Written(Reached):
    """The tiles of one tensor, which of them were written, and by whom."""

    def __init__(self, extents: Sequence[int]) -> None:
        super().__init__(extents)
        self._last = array("H", bytes(2 * len(self.states)))
        self._writers: list[Writer] = []
        self._numbers: dict[Writer, int] = {}
        self._clashes: dict[tuple[int, int, int], dict[str, Any]] = {}

    def overlaps(self, first: Sequence[int], extents: Sequence[int]) -> bool:
        """Whether a tile of the block was written before."""
        return any(any(self.states[a:b]) for a, b in self._rows(first, extents))

    def add(
        self,
        first: Sequence[int],
        extents: Sequence[int],
        writer: Writer,
        differs: Callable[[Sequence[int]], bool] | None = None,
    ) -> None:
        """A block was written.

        Args:
            first: its first tile in the tensor.
            writer: who did.
            differs: of a tile of the block whether other values stood there before; None where
                nothing is computed.
        """
        number = self._number(writer)
        for at, end in self._rows(first, extents):
            if any(self.states[at:end]):
                for tile in range(at, end):
                    self._add(tile, first, number, differs)
            else:
                self.states[at:end] = bytes((ONCE,)) * (end - at)
                self._last[at:end] = array("H", (number,)) * (end - at)

    def _number(self, writer: Writer) -> int:
        number = self._numbers.get(writer)
        if number is None:
            number = min(len(self._writers), _WRITERS)
            if number < _WRITERS:
                self._numbers[writer] = number
                self._writers.append(writer)
        return number

    def _add(
        self,
        tile: int,
        first: Sequence[int],
        number: int,
        differs: Callable[[Sequence[int]], bool] | None,
    ) -> None:
        before, earlier = self.states[tile], self._last[tile]
        self._last[tile] = number
        if before == NEVER:
            self.states[tile] = ONCE
            return
        state = AGAIN
        if self._node(earlier) != self._node(number):
            place = self.coordinates(tile)
            local = [at - start for at, start in zip(place, first, strict=True)]
            state = DIFFERING if differs is not None and differs(local) else SHARED
        self.states[tile] = max(before, state)
        key = (state, self._line(earlier), self._line(number))
        if key not in self._clashes and len(self._clashes) < EXAMPLES:
            row = {"tile": list(self.coordinates(tile)), "differ": state == DIFFERING}
            writers = {"earlier": self._told(earlier), "later": self._told(number)}
            self._clashes[key] = {**row, **writers}

    def _node(self, number: int) -> int:
        return self._writers[number][0] if number < len(self._writers) else -1

    def _line(self, number: int) -> int:
        return self._writers[number][3] if number < len(self._writers) else 0

    def _told(self, number: int) -> dict[str, Any]:
        known = self._writers[number] if number < len(self._writers) else (-1, "", "", 0)
        return dict(zip(("node", "thread", "file", "line"), known, strict=True))

    def summed(self) -> dict[str, Any]:
        """What was never written, and what was more than once, as JSON types.

        ``again``, ``shared`` and ``differing`` are tiles: written more than once, by one node or
        several; by several nodes; of these those whose values differed in between.
        """
        counts = [self.states.count(state) for state in range(DIFFERING + 1)]
        return {
            **super().summed(),
            "again": sum(counts[AGAIN:]),
            "shared": sum(counts[SHARED:]),
            "differing": counts[DIFFERING],
            "clashes": list(self._clashes.values()),
        }
