"""CPU time of others: what all CPUs did, without this process and its descendants."""

from __future__ import annotations

import os
from pathlib import Path

from instrumentor.runtime.recorder.other_processes import OTHERS_SHARE, Others
from instrumentor_analysis.clock.neighbours import BUSY_SHARE

TICK = os.sysconf("SC_CLK_TCK")


def machine(root: Path, busy_s: int, processes: dict[int, tuple[int, list[int]]]) -> None:
    """A proc file system: seconds of all CPUs, and of each process with its children."""
    (root / "stat").write_text(f"cpu  {busy_s * TICK} 0 0 999999 7 0 0 0 0 0\ncpu0 1 2 3\n")
    for pid, (seconds, children) in processes.items():
        thread = root / str(pid) / "task" / str(pid)
        thread.mkdir(parents=True, exist_ok=True)
        (thread / "children").write_text(" ".join(map(str, children)))
        fields = ["S", *["0"] * 10, str(seconds * TICK), "0", "0", "0", *["0"] * 30]
        (root / str(pid) / "stat").write_text(f"{pid} (a) b) {' '.join(fields)}")


def test_neither_this_process_nor_its_descendants_are_others(tmp_path: Path) -> None:
    mine = os.getpid()
    family = {mine: (10, [8001]), 8001: (5, [8002, 8003]), 8002: (1, [])}  # 8003 has just ended
    machine(tmp_path, 100, {**family, 9: (50, [])})
    others = Others(str(tmp_path))
    assert others.used_s() is None
    others.start()
    later = {mine: (14, [8001]), 8001: (9, [8002]), 8002: (2, [])}
    machine(tmp_path, 120, {**later, 9: (61, [])})
    assert others.used_s() == 20 - (4 + 4 + 1)


def test_where_the_system_does_not_say_nothing_is_known(tmp_path: Path) -> None:
    others = Others(str(tmp_path))
    others.start()
    assert others.used_s() is None
    machine(tmp_path, 100, {9: (50, [])})  # and this process is not there
    others.start()
    assert others.used_s() is None


def test_it_is_busy_from_the_same_share_on_as_in_the_reports() -> None:
    assert OTHERS_SHARE == BUSY_SHARE
