"""Which tiles were written, by place: counts are exact, and examples name who and where."""

from __future__ import annotations

import random

import pytest

from instrumentor.runtime.kernel_writes import Reached, Written


def test_what_is_written_once_and_whole_leaves_nothing_to_tell() -> None:
    written = Written((4, 4))
    for row in (0, 2):
        for column in (0, 2):
            written.add((row, column), (2, 2), (row, "write", "k.py", 5))
    told = written.summed()
    assert (told["never"], told["again"], told["box"], told["clashes"]) == (0, 0, [], [])


def test_holes_are_counted_and_their_box_is_told() -> None:
    written = Written((2, 4, 4))
    written.add((0, 0, 0), (2, 4, 2), (0, "write", "k.py", 5))
    written.add((0, 0, 2), (1, 4, 2), (0, "write", "k.py", 5))
    told = written.summed()
    assert (told["never"], told["box"]) == (8, [[1, 1], [0, 3], [2, 3]])


def test_the_same_number_of_tiles_in_the_wrong_place_is_a_hole_and_an_overlap() -> None:
    written = Written((4, 2))
    for node in (0, 1):
        written.add((0, 0), (2, 2), (node, "write", "k.py", 5 + node), lambda tile: tile == [0, 1])
    told = written.summed()
    assert [told[name] for name in ("never", "again", "shared", "differing")] == [4, 4, 4, 1]
    differing = [clash for clash in told["clashes"] if clash["differ"]]
    (clash,) = differing
    assert clash["tile"] == [0, 1]
    assert (clash["earlier"]["node"], clash["later"]["node"]) == (0, 1)
    assert (clash["earlier"]["line"], clash["later"]["line"]) == (5, 6)


def test_of_one_node_nothing_is_shared_and_a_difference_stays() -> None:
    written = Written((1, 1))
    one, other = (0, "write", "k.py", 5), (1, "write", "k.py", 5)
    written.add((0, 0), (1, 1), one)
    written.add((0, 0), (1, 1), one, lambda tile: True)
    assert written.summed()["shared"] == 0
    written.add((0, 0), (1, 1), other, lambda tile: True)
    written.add((0, 0), (1, 1), one, lambda tile: False)
    assert written.summed()["differing"] == 1


@pytest.mark.parametrize("seed", range(20))
def test_counts_are_those_of_a_plain_count(seed: int) -> None:
    chance = random.Random(seed)
    extents = [chance.randint(1, 5) for _ in range(chance.randint(1, 3))]
    written, plain = Written(extents), dict[tuple[int, ...], list[int]]()
    for _ in range(chance.randint(0, 12)):
        first = [chance.randrange(extent) for extent in extents]
        shape = [chance.randint(1, n - at) for n, at in zip(extents, first, strict=True)]
        node = chance.randrange(3)
        written.add(first, shape, (node, "write", "k.py", 1))
        tiles = [()]  # type: list[tuple[int, ...]]
        for at, extent in zip(first, shape, strict=True):
            tiles = [(*tile, at + n) for tile in tiles for n in range(extent)]
        for tile in tiles:
            plain.setdefault(tile, []).append(node)
    told = written.summed()
    assert told["never"] == len(written.states) - len(plain)
    assert told["again"] == sum(len(nodes) > 1 for nodes in plain.values())
    assert told["shared"] == sum(len(set(nodes)) > 1 for nodes in plain.values())
    assert len(told["clashes"]) <= 8


def test_what_is_read_leaves_what_is_not() -> None:
    reached = Reached((4, 4))
    for row in (0, 2):
        reached.reach((row, 0), (2, 3))
        reached.reach((row, 0), (2, 3))
    box = [[0, 3], [3, 3]]
    assert reached.summed() == {"never": 4, "unplaced": 0, "box": box, "first": [0, 3]}
    reached.reach((0, 3), (4, 1))
    assert reached.summed() == {"never": 0, "unplaced": 0, "box": [], "first": []}
