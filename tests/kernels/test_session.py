"""The record of an optimisation."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace

from instrumentor.kernels.session import (
    Session,
    Version,
    counted_against,
    described_change,
    open_session,
)
from instrumentor.kernels.session_text import summary_json, summary_lines, version_line
from instrumentor.kernels.trials import Tried
from instrumentor.shared.errors import UsageError
from tests.analysis.shared.test_documents_planted import exchanged, nasties, places
from tests.attackers import TWO_USERS, as_another_user, shared_tmp

__all__ = ["shared_tmp"]

COUNTS = {"dram_bytes": 1, "busiest_node_bytes": 1, "busiest_node_copies": 1, "written_tiles": 1}
SETTINGS = {"kernel": "k", "mode": "perf"}
BASE = Version(1, "baseline", {"k.py": "a"}, (100.0, 101.0, 99.0, 100.0), metrics={"cores_used": 1})
FAST = Version(2, "faster", {"k.py": "b"}, (50.0, 51.0, 49.0, 50.0), change="+1 -1 lines: x = 2")
WRONG = Version(3, "invalid", {"k.py": "c"}, (1.0,), problem="check: code 1", validated=False)


def session(folder: Path) -> Session:
    made = open_session(folder, SETTINGS)
    for version in (BASE, FAST, WRONG):
        made = made.add(version, {"sub/k.py": f"v{version.number}\n".encode()})
    return made


def test_it_is_taken_up_again(tmp_path: Path) -> None:
    made = session(tmp_path / "s")
    again = open_session(tmp_path / "s", SETTINGS)
    assert again == made
    assert again.best == 2
    assert again.text_of(BASE, "sub/k.py") == b"v1\n"


def test_a_wrong_version_is_never_the_best(tmp_path: Path) -> None:
    made = session(tmp_path / "s")
    assert made.best_version == FAST
    assert not WRONG.good
    assert version_line(WRONG) == (
        "version 3: WRONG RESULT, its time does not count; check: code 1"
    )


def test_other_settings_are_refused(tmp_path: Path) -> None:
    session(tmp_path / "s")
    with pytest.raises(UsageError, match="another mode: 'perf', now 'auto-profile'"):
        open_session(tmp_path / "s", {**SETTINGS, "mode": "auto-profile"})


def test_whatever_a_session_is_said_to_hold(tmp_path: Path) -> None:
    made = session(tmp_path / "s").noted(
        replace(WRONG, metrics={"simulated": COUNTS}, tried=(Tried("t", "better", "s"),))
    )
    file = made.folder / "session.json"
    whole = json.loads(file.read_text())
    for at, path in enumerate(places(whole)):
        for new in (*nasties(at), [-1], "other", 2):
            file.write_text(json.dumps(exchanged(whole, path, new)))
            try:
                found = open_session(made.folder, {"kernel": "k"})
            except UsageError:
                continue
            try:
                assert "\0" not in "".join(summary_lines(found))
                json.dumps(summary_json(found), allow_nan=False)
                [version_line(each) for each in found.versions]
            except Exception:
                print(f"{path} = {new!r:.40}")
                raise


@pytest.mark.parametrize("numbers", [(2, 3, 4), (1, 3, 2), (1, 1, 3), (1, 2, -3)])
def test_versions_that_are_not_numbered_as_ours_are_none(
    tmp_path: Path, numbers: tuple[int, ...]
) -> None:
    made = session(tmp_path / "s")
    renumbered = zip(made.versions, numbers, strict=True)
    document = replace(made, versions=tuple(replace(v, number=n) for v, n in renumbered)).to_json()
    (made.folder / "session.json").write_text(json.dumps(document))
    with pytest.raises(UsageError, match=r"session\.json: cannot be read: there is no version \d"):
        open_session(made.folder, SETTINGS)


def test_versions_without_times_are_held_against_each_other_by_counts(tmp_path: Path) -> None:
    made = open_session(tmp_path / "s", {"mode": "simulated"})
    for version in (replace(BASE, wall_us=()), replace(FAST, state="better", wall_us=())):
        made = made.add(version, {})
    with pytest.raises(UsageError, match="there is no version 1"):
        open_session(made.folder, {"mode": "simulated"})


@pytest.mark.parametrize("name", ["runs", "versions"])
@pytest.mark.parametrize("begun", [True, False])
def test_nothing_is_written_behind_a_link_of_a_session(
    tmp_path: Path, name: str, begun: bool
) -> None:
    made = session(tmp_path / "s")
    if (made.folder / name).exists():
        (made.folder / name).rename(tmp_path / "elsewhere")
    (made.folder / name).symlink_to(tmp_path)
    if not begun:
        shutil.rmtree(made.folder / "versions") if name == "runs" else None
        (made.folder / "session.json").unlink()
    with pytest.raises(UsageError, match="is a symbolic link, behind which nothing is written"):
        open_session(made.folder, SETTINGS)


@pytest.mark.parametrize("behind", ["session.json", "versions/2/sub/k.py", "versions/2/sub"])
def test_a_text_behind_a_link_is_not_put_back(tmp_path: Path, behind: str) -> None:
    made = session(tmp_path / "s")
    (made.folder / behind).rename(tmp_path / "elsewhere")
    (made.folder / behind).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match=r"cannot be read: .*symbolic link"):
        open_session(made.folder, SETTINGS).text_of(FAST, "sub/k.py")


def test_a_text_that_is_gone_is_named(tmp_path: Path) -> None:
    made = session(tmp_path / "s")
    (made.folder / "versions" / "2" / "sub" / "k.py").unlink()
    with pytest.raises(UsageError, match=r"versions/2/sub/k\.py: cannot be read: No such file"):
        made.text_of(FAST, "sub/k.py")


@TWO_USERS
@pytest.mark.parametrize("theirs", ["session.json", "versions/2/sub/k.py"])
def test_a_session_of_another_user_is_not_gone_on_with(shared_tmp: Path, theirs: str) -> None:
    made = session(shared_tmp / "s")
    path = made.folder / theirs
    content = path.read_bytes()
    path.unlink()
    path.parent.chmod(0o777)
    as_another_user(lambda: path.write_bytes(content))
    with pytest.raises(UsageError, match="belongs to another user"):
        open_session(made.folder, SETTINGS).text_of(FAST, "sub/k.py")


@pytest.mark.parametrize("text", ["{", "[]", '{"versions": [{}], "settings": {}, "best": 0}'])
def test_a_damaged_session_is_a_usage_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "session.json").write_text(text)
    with pytest.raises(UsageError, match="cannot be read"):
        open_session(tmp_path, SETTINGS)


def test_a_folder_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").touch()
    with pytest.raises(UsageError, match="holds no session"):
        open_session(tmp_path, SETTINGS)


def test_runs_of_a_baseline_that_failed_are_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / "s" / "runs" / "1-1").mkdir(parents=True)
    assert open_session(tmp_path / "s", SETTINGS).versions == ()


def test_the_summary(tmp_path: Path) -> None:
    lines = list(summary_lines(session(tmp_path / "s")))
    assert lines[1].startswith("Baseline  100 us  1 of ? cores")
    assert lines[2].startswith("Final     50.0 us")
    assert lines[3].startswith("Speed-up  2.00x: version 2 is 2.00 times as fast (95 % interval")
    assert "version 3: WRONG RESULT" in lines[6]


def test_the_summary_of_a_baseline_alone(tmp_path: Path) -> None:
    made = open_session(tmp_path / "s", SETTINGS)
    assert list(summary_lines(made)) == ["Nothing was measured."]
    made = made.add(BASE, {})
    assert "Speed-up  none significant" in list(summary_lines(made))


def test_the_document(tmp_path: Path) -> None:
    document = summary_json(session(tmp_path / "s"))
    assert document["speedup"] == pytest.approx(2)
    assert json.loads(json.dumps(document))["versions"][2]["state"] == "invalid"


def test_changes_in_words() -> None:
    before, after = {"k.py": b"a\nb\n"}, {"k.py": b"a\n  grid = (8, 8)\nb2\n"}
    assert described_change(before, after) == "+2 -1 lines: grid = (8, 8)"
    assert described_change(before, before) == "nothing"


def counted(dram: int, busiest: int, copies: int, number: int = 1) -> Version:
    names = ("dram_bytes", "busiest_node_bytes", "busiest_node_copies")
    counts = dict(zip(names, (dram, busiest, copies), strict=True))
    return Version(number, "baseline", {"k.py": "a"}, metrics={"simulated": counts})


@pytest.mark.parametrize(
    ("counts", "state", "words"),
    [
        ((10, 10, 10), "same", "the same traffic, balance and copies"),
        ((5, 10, 10), "better", "DRAM traffic 0.5x"),
        ((10, 10, 20), "worse", "its copies 2x"),
        ((5, 20, 10), "traded", "DRAM traffic 0.5x, bytes of the busiest node 2x"),
    ],
)
def test_counts_are_better_where_none_is_worse(
    counts: tuple[int, int, int], state: str, words: str
) -> None:
    found, said = counted_against(counted(10, 10, 10), counted(*counts))
    assert (found, said) == (state, f"{words} (simulated: counts, no times)")


def test_less_of_what_is_to_be_written_is_no_better_version() -> None:
    whole, part = counted(10, 10, 10), counted(0, 0, 0)
    for version, tiles in ((whole, 64), (part, 48)):
        version.metrics["simulated"]["written_tiles"] = tiles
    assert counted_against(whole, part) == (
        "failed",
        "16 of the 64 tiles written before are left out",
    )
    assert counted_against(part, whole)[0] == "worse"


def test_a_session_of_counts_shows_no_time(tmp_path: Path) -> None:
    made = open_session(tmp_path / "s", {"kernel": "k", "mode": "simulated"})
    better = counted(2_000_000, 10, 1, number=2)
    for version in (counted(4_000_000, 10, 1), replace(better, state="better")):
        made = made.add(version, {"k.py": b""})
    text = "\n".join(summary_lines(made))
    assert "Baseline  DRAM 4.0 MB, busiest node 10 B, in 1 copies" in text
    assert "Counts    DRAM traffic 0.5x" in text and "version 2: BETTER, result not checked" in text
    checked = made.add(replace(better, number=3, state="better", validated=True), {"k.py": b""})
    assert "version 3: BETTER, result" not in "\n".join(summary_lines(checked))
    assert " us" not in text and "Speed-up" not in text
    assert summary_json(made)["speedup"] is None


def test_edits_that_were_better_when_tried_stand_in_the_summary(tmp_path: Path) -> None:
    counts = {"dram_bytes": 8, "busiest_node_bytes": 4, "busiest_node_copies": 2}
    tried = (Tried("BLOCK 2 -> 4 (line 3)", "better", "its copies 0.5x"),)
    base = Version(1, "baseline", {}, metrics={"simulated": counts}, tried=tried)
    text = "\n".join(summary_lines(Session(tmp_path, SETTINGS, (base,))))
    assert "no better version was saved; better when tried: BLOCK 2 -> 4 (line 3)" in text
    assert "tried BLOCK 2 -> 4 (line 3): BETTER; its copies 0.5x (with version 1)" in text
    alone = replace(base, tried=())
    assert "Counts    no better version\n" in "\n".join(
        summary_lines(Session(tmp_path, SETTINGS, (alone,)))
    )
