"""The order of the runs, what is kept, and when it ends; the runs themselves are made up."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import structs

from instrumentor.cli.main import call
from instrumentor.run import pairs
from instrumentor.run.options import RunOptions
from instrumentor.run.pairs import (
    ITERATION,
    MOST_PAIRS,
    Command,
    Paired,
    Version,
    alike,
    read_pairs,
    refuse_other,
    run_pairs,
)
from instrumentor.shared.errors import Interrupted, RunFailed, UsageError

BASE = Version("main", Path("/a/train.py"), (), RunOptions(), "c0ffee", "5a", "train.py")
NEW = Version("HEAD", Path("/b/train.py"), ("--fast",), RunOptions(), None, "5b", "train.py")


class Machine:
    """Stands for runs: so many milliseconds for each version; every run a little longer."""

    def __init__(self, base_ms: float, new_ms: float) -> None:
        self.ms = {BASE.script: base_ms, NEW.script: new_ms}
        self.batch = {BASE.script: 8.0, NEW.script: 8.0}
        self.ran: list[Path] = []
        self.fails_at: tuple[int, BaseException] | None = None
        self.iterations = True
        self.micro_steps: dict[Path, int] = {}

    def run(self, script: Path, arguments: Any, options: RunOptions, progress: Any) -> Any:
        self.ran.append(script)
        count = len(self.ran)
        if self.fails_at is not None and count == self.fails_at[0]:
            raise self.fails_at[1]
        ms = self.ms[script] * (1 + 0.001 * (count * 7 % 5))
        several = self.micro_steps.get(script)
        update = SimpleNamespace(ms=several * ms, micro_steps=several) if several else None
        whole = SimpleNamespace(median_ms=ms, update=update) if self.iterations else None
        wall = SimpleNamespace(
            label="fwd+bwd",
            median_ms=ms / 2,
            samples_per_s=self.batch[script] / ms * 2000,
            iteration=whole,
        )
        busy = [SimpleNamespace(kind="busy-machine")] if count == 2 else []
        return SimpleNamespace(summary=SimpleNamespace(wall_clock=wall, warnings=busy))


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine(10.0, 9.5)
    monkeypatch.setattr(pairs, "run", made.run)
    return made


def go(folder: Path, most: int = 40, **options: Any) -> Paired:
    turns = iter([True, False, False] * 20)
    choices = {"resolution_percent": 1.0, "coin": lambda: next(turns), **options}
    (folder / "out").mkdir(exist_ok=True)
    return run_pairs(BASE, NEW, folder / "out", most=most, **choices)


def test_it_ends_as_soon_as_it_knows(tmp_path: Path, machine: Machine) -> None:
    told: list[int] = []
    found = go(tmp_path, tell=lambda paired: told.append(len(paired.pairs)))
    assert found.verdict.outcome == "faster"
    assert found.verdict.percent == pytest.approx(-5, abs=0.3)
    assert 8 <= len(found.pairs) <= 14 and told == [*range(1, len(found.pairs) + 1)]
    assert machine.ran[:4] == [NEW.script, BASE.script, BASE.script, NEW.script]
    assert (found.figure, found.per_sample) == (ITERATION, False)


def test_the_record_holds_every_pair(tmp_path: Path, machine: Machine) -> None:
    command = Command(("--refs", "main.."), (("train.py", "--fast"),), "/work")
    found = go(tmp_path, most=2, command=command)
    document = json.loads((tmp_path / "out" / "pairs.json").read_text())
    assert read_pairs(tmp_path / "out").command == found.command == command
    assert document["command"]["versions"] == [["train.py", "--fast"]]
    assert document["schema"] == "instrument-pairs/1"
    assert (document["base"]["name"], document["new"]["arguments"]) == ("main", ["--fast"])
    assert document["verdict"]["outcome"] == "undecided" and not found.decided
    assert [pair["first"] for pair in document["pairs"]] == ["new", "base"]
    assert document["pairs"][0]["base"]["busy"] is True
    assert document["pairs"][1]["new"]["folder"] == "02_new"


def test_the_record_is_judged_again(tmp_path: Path, machine: Machine) -> None:
    found = go(tmp_path)
    again = read_pairs(tmp_path / "out")
    assert (again.verdict, again.figure, again.differences) == (
        found.verdict, found.figure, found.differences,
    )  # fmt: skip
    assert (again.base.name, again.new.arguments) == ("main", ("--fast",))
    assert again.pairs[-1].new.folder == f"{len(found.pairs):02}_new"
    assert read_pairs(tmp_path / "out", gate_percent=5.0).gate == "none"
    assert read_pairs(tmp_path / "out", 50.0).verdict.resolution_percent == 50.0
    region = read_pairs(tmp_path / "out", of_region=True)
    assert region.figure == "fwd+bwd" != found.figure


RUN = {"folder": "a", "times_ms": {"iteration": 1.0}}
PAIR = {"first": "new", "base": RUN, "new": RUN}


@pytest.mark.parametrize(
    "planted",
    [
        {"pairs": []},
        {"pairs": [{"first": "new", "base": {"folder": "a"}, "new": {"folder": "b"}}]},
        {"pairs": 3},
        {"verdict": {"resolution_percent": -1}},
        {"base": None},
        {"pairs": [PAIR] * (MOST_PAIRS + 1)},
    ],
)
def test_what_is_no_record_is_refused(
    tmp_path: Path, machine: Machine, planted: dict[str, Any]
) -> None:
    go(tmp_path, most=2)
    path = tmp_path / "out" / "pairs.json"
    document = json.loads(path.read_text())
    path.write_text(json.dumps(document | planted))
    with pytest.raises(UsageError, match="no record of pairs"):
        read_pairs(tmp_path / "out")
    for ms in (0, -1.0, "10", 1e300):
        document["pairs"][0]["base"]["times_ms"] = {"iteration": ms}
        path.write_text(json.dumps(document))
        with pytest.raises(UsageError, match="no record of pairs"):
            read_pairs(tmp_path / "out")
    document["pairs"][0]["base"] |= {"times_ms": {"iteration": 1.0}, "folder": "../../elsewhere"}
    path.write_text(json.dumps(document))
    assert read_pairs(tmp_path / "out").pairs[0].base.folder == "elsewhere"


def test_of_no_pair_there_is_nothing_to_judge(tmp_path: Path) -> None:
    (tmp_path / "pairs.json").write_text('{"schema": "instrument-pairs/1"}')
    with pytest.raises(UsageError, match="holds no pair"):
        read_pairs(tmp_path)


def test_pairs_are_reported_and_compared_later(
    tmp_path: Path, machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    found = go(tmp_path)
    folder = str(tmp_path / "out")
    for verb in ("report", "compare"):
        assert call([verb, folder]) == 0
        told = capsys.readouterr().out
        assert "faster than main" in told and f"pair {len(found.pairs):2}: main" in told
        assert call([verb, folder, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["schema"] == "instrument-pairs/1"
    assert call(["compare", folder, "--fail-on-regression", "5"]) == 0
    assert "is ruled out" in capsys.readouterr().err
    assert call(["compare", folder, "--judge", "region"]) == 0
    assert "compared: fwd+bwd" in capsys.readouterr().out
    for words, said in (
        (["report", folder, "--ops"], "holds pairs of runs, and ops belong to a single run"),
        (["compare", folder, "--html", "x.html"], "pairs have no page"),
    ):
        assert call(words) == 2 and said in capsys.readouterr().err


def test_ctrl_c_keeps_the_pairs_so_far(tmp_path: Path, machine: Machine) -> None:
    machine.fails_at = 6, Interrupted("interrupted")
    with pytest.raises(Interrupted) as stopped:
        go(tmp_path)
    assert len(stopped.value.result.pairs) == 2 and stopped.value.result.interrupted
    assert json.loads((tmp_path / "out" / "pairs.json").read_text())["interrupted"] is True


def test_ctrl_c_in_the_first_pair_says_that_none_is_complete(
    tmp_path: Path, machine: Machine
) -> None:
    machine.fails_at = 2, Interrupted("interrupted")
    with pytest.raises(Interrupted) as stopped:
        go(tmp_path)
    assert stopped.value.message == "interrupted before the first pair was complete"


def test_a_version_that_fails_is_named(tmp_path: Path, machine: Machine) -> None:
    failure = RunFailed("the script ended with exit code 1")
    failure.result = "the run's own, which is no pairs"
    machine.fails_at = 1, failure
    with pytest.raises(RunFailed) as failed:
        go(tmp_path)
    assert failed.value.message == "HEAD: the script ended with exit code 1"
    assert failed.value.result is None


def test_pairs_that_are_continued_are_judged_as_one_sequence(
    tmp_path: Path, machine: Machine
) -> None:
    at_once = go(tmp_path)
    (apart := tmp_path / "apart").mkdir()
    turns = iter([True, False, False] * 20)
    choices: dict[str, Any] = {"coin": lambda: next(turns)}
    machine.ran.clear()
    first = go(apart, most=4, **choices)
    assert not first.decided
    earlier = read_pairs(apart / "out")
    refuse_other(earlier, BASE, NEW)
    whole = go(apart, earlier=earlier, **choices)
    assert (whole.verdict, whole.differences) == (at_once.verdict, at_once.differences)
    assert len(machine.ran) == 2 * len(whole.pairs)  # none is run again
    assert (apart / "out" / "05_new").is_dir() and not list((apart / "out").glob("01_new-*"))
    assert len(read_pairs(apart / "out").pairs) == len(whole.pairs)
    assert whole.duration_s >= earlier.duration_s
    # What is decided is not gone on with.
    assert go(apart, earlier=whole).pairs == whole.pairs


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("source", "5c", r"HEAD is not what its pairs were run with \(its files\)"),
        ("commit", "f00", "its commit"),
        ("arguments", (), "its arguments"),
        ("how", "train.py --scope step", "how it is timed"),
        ("options", RunOptions(python="other"), "its interpreter"),
    ],
)
def test_pairs_of_another_version_are_not_continued(
    tmp_path: Path, machine: Machine, field: str, value: Any, said: str
) -> None:
    earlier = go(tmp_path, most=2)
    with pytest.raises(UsageError, match=said):
        refuse_other(earlier, BASE, structs.replace(NEW, **{field: value}))
    old = structs.replace(earlier, base=structs.replace(BASE, source=""))
    with pytest.raises(UsageError, match="recorded by an earlier version"):
        refuse_other(old, structs.replace(BASE, source=""), NEW)


def test_without_iterations_the_timed_region_is_compared(tmp_path: Path, machine: Machine) -> None:
    machine.iterations = False
    assert go(tmp_path, most=1).figure == "fwd+bwd"


@pytest.mark.parametrize(("base", "new", "figure"), [(4, 4, "update"), (4, 2, "iteration")])
def test_of_micro_steps_the_update_is_compared_where_it_is_of_as_many(
    tmp_path: Path, machine: Machine, base: int, new: int, figure: str
) -> None:
    machine.micro_steps = {BASE.script: base, NEW.script: new}
    found = go(tmp_path, most=1)
    assert found.figure == figure
    assert found.verdict.percent == pytest.approx(-5, abs=0.5)


def test_other_batch_sizes_are_compared_per_sample(tmp_path: Path, machine: Machine) -> None:
    machine.ms[NEW.script], machine.batch[NEW.script] = 15.0, 16.0
    found = go(tmp_path)
    assert found.per_sample and found.verdict.outcome == "faster"
    assert found.verdict.percent == pytest.approx(-25, abs=1)


@pytest.mark.parametrize(
    ("new_ms", "allowed", "says"),
    [(11.0, 5.0, "regression"), (10.0, 5.0, "none"), (10.3, 5.0, "none")],
)
def test_the_gate_goes_on_until_it_can_tell(
    tmp_path: Path, machine: Machine, new_ms: float, allowed: float, says: str
) -> None:
    machine.ms[NEW.script] = new_ms
    found = go(tmp_path, gate_percent=allowed)
    assert found.gate == says
    assert found.decided and len(found.pairs) < 20


def test_no_run_of_a_pair_is_kept_behind_a_link(tmp_path: Path, machine: Machine) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "elsewhere").mkdir()
    for name in ("01_new", "pairs.json"):
        (tmp_path / "out" / name).symlink_to(tmp_path / "elsewhere" / "x")
    (tmp_path / "out" / "01_base").symlink_to(tmp_path / "elsewhere")
    found = go(tmp_path, most=1)
    sides = found.pairs[0].new, found.pairs[0].base
    assert [each.folder for each in sides] == ["01_new-2", "01_base-2"]
    assert not (tmp_path / "out" / "pairs.json").is_symlink()
    assert not any((tmp_path / "elsewhere").iterdir())


@pytest.mark.parametrize(
    "other",
    [
        {"source": "5b"},
        {"arguments": ("--fast",)},
        {"how": "infer.py"},
        {"options": RunOptions(python="/opt/python")},
    ],
)
def test_versions_of_the_same_files_that_are_started_alike_are_one(other: dict[str, Any]) -> None:
    named = structs.replace(BASE, name="again", script=Path("/c/train.py"), commit=None)
    assert alike(BASE, named)
    assert not alike(BASE, structs.replace(named, **other))
    unknown = structs.replace(BASE, source="")
    assert not alike(unknown, unknown)
