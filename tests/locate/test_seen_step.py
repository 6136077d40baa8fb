"""A step that a run has shown is a step like any other: its stop, what is skipped, what is told."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from instrumentor.locate import locate_file
from instrumentor.locate.located import Declined, Located
from instrumentor.rewrite.prepare import plan
from instrumentor.shared.errors import InstrumentError
from instrumentor.shared.observed import Chain, Observed
from instrumentor.shared.options import Options
from tests.conftest import ROOT
from tests.warned import texts

ENGINE = """\
import torch
from torch import nn

class Engine:
    def __init__(self):
        self.net = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 1))
        self.optimizer = torch.optim.AdamW(self.net.parameters())
        self.losses, self.scale = [], 1.0

    def advance(self, hidden):
        loss = self.net[1](hidden).mean()
        getattr(loss, "back" + "ward")()
        self.losses.append(loss.item())

    def update(self):
        getattr(self.optimizer, "st" + "ep")()

def validate(net, data):
    net.eval()
    with torch.no_grad():
        total = sum(net(x).mean().item() for x in data)
    net.train()
    return total

def main():
    engine = Engine()
    data = [torch.randn(4, 8) for _ in range(8)]
    handlers = {"go": engine.advance, "up": engine.update}
    for n in range(400):
        x = torch.randn(4, 8)
        hidden = engine.net[0](x)
        handlers["go"](hidden)
        handlers["up"]()
        if n % 3 == 0:
            print("score", validate(engine.net, data))
        if n % 4 == 0:
            torch.save(engine.net.state_dict(), "last.pt")

main()
"""
STEP = {
    "forward": ["hidden = engine.net[0](x)"],
    "backward": ['handlers["go"](hidden)', 'getattr(loss, "back" + "ward")()'],
    "step": ['handlers["up"]()', 'getattr(self.optimizer, "st" + "ep")()'],
}
FUNCTIONS = {
    'getattr(loss, "back" + "ward")()': "advance",
    "getattr(self.optimizer": "update",
    "return net[0](x)": "first",
}


def line(source: str, text: str) -> int:
    """Number of the only line with a text."""
    (found,) = [n for n, each in enumerate(source.splitlines(), 1) if text in each]
    return found


def seen(path: Path, source: str, *, hidden: str = "", **more: list[str]) -> Observed:
    """What a run would have shown, by the texts of the lines from the loop inwards.

    Args:
        hidden: a file whose code leads from the loop to the backward.
    """
    step = {**STEP, **more}
    inner = {
        text: next((f for head, f in FUNCTIONS.items() if text.startswith(head)), "main")
        for texts_of in step.values()
        for text in texts_of
    }

    def chain(part: str) -> Chain:
        frames = [(path, line(source, text), inner[text]) for text in step[part]]
        outer = (path, len(source.splitlines()), "<module>")
        between = [(Path(hidden), 1, "hidden")] if hidden and part == "backward" else []
        return tuple([outer, frames[0], *between, *frames[1:]][::-1])

    forward, backward, update = (
        (line(source, step[part][0]),) for part in ("forward", "backward", "step")
    )
    chains = {part: (chain(part),) for part in step}
    call = (path, len(source.splitlines()))
    return Observed(path, "main", False, call, forward, backward, update, chains, None)


def planned(tmp_path: Path, source: str, **more: Any) -> tuple[Any, list[str]]:
    """The plan's document and its warnings."""
    path = tmp_path / "train.py"
    path.write_text(source, encoding="utf-8")
    found = plan(path, Options(seen=seen(path, source, **more)))
    return found.to_json(), texts(found.warnings)


def read_scripts() -> Iterator[tuple[Path, Located]]:
    """Scripts whose step stands in the function of its loop, with nothing else on its lines."""
    for path in sorted((ROOT / "fixtures" / "passes").glob("*/before.py")):
        with suppress(InstrumentError):
            found = locate_file(path, Options(), (path.parent,))
            region, own = found.regions[0], found.candidate
            joined = b"; " in own.source.data
            if region.sites and not joined and region.candidate.scope is own.scope:
                yield path, found


def planned_around(found: Located) -> tuple[object, ...]:
    """Where the clock starts and ends, where the run stops, and what it leaves out or keeps."""
    return (
        sorted(start.lineno for region in found.regions for start in region.starts),
        sorted(end.after.lineno for region in found.regions for end in region.ends),
        [(stop.after.lineno, stop.strategy, stop.condition) for stop in found.stops],
        sorted((each.statement.lineno, each.what) for each in found.skipped),
        sorted((each.statement.lineno, each.why) for each in found.kept),
        (found.scope, found.accumulation, found.counter and found.counter.line),
    )


def test_what_a_run_would_show_of_a_step_that_is_read_makes_the_same_plan() -> None:
    """Only the lines are told: where forward, backwards and updates are, and nothing of why."""
    same = 0
    for path, found in read_scripts():
        own = found.candidate
        lines = (found.regions[0].begin.lineno,), sorted({s.call.lineno for s in own.sites})
        updates = [(u.call or u.statement).lineno for u in own.own_updates]
        if found.regions[0].branches or not updates:
            continue
        name = getattr(own.scope, "name", "<module>")
        shown = Observed(
            own.source.path, name, False, (path, 1), lines[0], (*lines[1],), (*updates,), {}, None
        )
        again = locate_file(path, Options(seen=shown), (path.parent,))
        assert planned_around(again) == planned_around(found), path
        same += 1
    assert same > 20


def test_validation_and_saving_are_skipped_and_the_stop_is_behind_the_update(
    tmp_path: Path,
) -> None:
    document, warnings = planned(tmp_path, ENGINE)
    assert document["skipped_validation"] == [line(ENGINE, "score")]
    assert document["skipped_checkpoints"] == [line(ENGINE, "torch.save")]
    (stop,) = [each for each in document["edits"] if each["pass"] == "early_stop"]
    assert stop["line"] == line(ENGINE, 'handlers["up"]()')
    assert document["label"] == "fwd+bwd"
    assert {each["by"] for each in document["evidence"]} == {"run"}
    assert document["backward"]["line"] == line(ENGINE, '"back"')
    assert not any("kept" in each for each in warnings)


def test_host_reads_of_what_the_run_has_come_to_are_named(tmp_path: Path) -> None:
    _, warnings = planned(tmp_path, ENGINE)
    at = line(ENGINE, "loss.item()")
    assert f"train.py:{at}: A host read inside advance() is inside the timed region." in warnings


def test_host_reads_behind_a_name_that_is_put_together_are_named(tmp_path: Path) -> None:
    call = 'getattr(engine, "ad" + "vance")(hidden)'
    source = ENGINE.replace('handlers["go"](hidden)', call).replace("engine.advance", "print")
    _, warnings = planned(tmp_path, source, backward=[call, STEP["backward"][1]])
    at = line(source, "loss.item()")
    assert f"train.py:{at}: A host read inside advance() is inside the timed region." in warnings


def test_host_reads_of_the_loop_are_named(tmp_path: Path) -> None:
    read = ENGINE.replace(
        '        handlers["go"]',
        '        if hidden.sum().item() > 9:\n            continue\n        handlers["go"]',
    )
    _, warnings = planned(tmp_path, read)
    assert any(f"train.py:{line(read, 'sum().item')}: A host read stays" in w for w in warnings)


def test_validation_that_the_step_depends_on_stays(tmp_path: Path) -> None:
    """The loop calls what reads it by a name that is put together."""
    used = ENGINE.replace(
        'print("score", validate(engine.net, data))',
        "engine.scale = validate(engine.net, data)  # score",
    )
    used = used.replace("(hidden).mean()", "(hidden).mean() * self.scale")
    document, warnings = planned(tmp_path, used)
    assert document["skipped_validation"] == []
    (told,) = [each for each in warnings if "Validation is kept" in each]
    assert "might change scale, which is used at line 11" in told and "between samples" in told
    kept = [
        each
        for each in document["edits"]
        if "tells iterations with the validation" in each["reason"]
    ]
    assert len(kept) == 2  # its own part of an iteration


def test_where_the_step_cannot_be_read_all_stays_and_that_is_said(tmp_path: Path) -> None:
    document, warnings = planned(tmp_path, ENGINE, hidden="<string>")
    assert document["skipped_validation"] == document["skipped_checkpoints"] == []
    at = f"train.py:{line(ENGINE, STEP['backward'][0])}"
    assert any(w.startswith(f"{at}: A run has shown that hidden() of <string>") for w in warnings)
    kept = [each for each in warnings if f"the step runs code at {at} that cannot be read" in each]
    assert len(kept) == 2


@pytest.mark.parametrize(
    "file",
    [
        "/venv/lib/python3.11/site-packages/torch/utils/_contextlib.py",
        "/usr/lib/python3.11/contextlib.py",
        "<eval_with_key>.4",
    ],
)
def test_what_is_known_of_libraries_hides_nothing(tmp_path: Path, file: str) -> None:
    document, _ = planned(tmp_path, ENGINE, hidden=file)
    assert document["skipped_validation"]


def test_another_package_hides_what_it_does(tmp_path: Path) -> None:
    file = "/venv/lib/python3.11/site-packages/engines/core.py"
    assert not planned(tmp_path, ENGINE, hidden=file)[0]["skipped_validation"]


def test_a_module_that_no_import_names_is_read(tmp_path: Path) -> None:
    """`import_module(name)`: the run tells its file, and what it reads keeps a validation."""
    steps = tmp_path / "steps.py"
    steps.write_text("def go(engine, hidden):\n    engine.advance(hidden * engine.scale)\n")
    source = ENGINE.replace("main():\n", "main():\n    module = import_module(sys.argv[1])\n")
    source = source.replace('handlers["go"](hidden)', "module.go(engine, hidden)")
    source = source.replace(
        'print("score", validate(engine.net, data))',
        "engine.scale = validate(engine.net, data)  # score",
    )
    source = f"import sys\nfrom importlib import import_module\n{source}"
    backward = ["module.go(engine, hidden)", STEP["backward"][1]]
    path = tmp_path / "train.py"
    path.write_text(source, encoding="utf-8")
    found = seen(path, source, backward=backward)
    (chain,) = found.chains["backward"]
    through: Chain = (chain[0], (steps, 2, "go"), *chain[1:])
    chains = {**found.chains, "backward": (through,)}
    shown = Observed(
        path, "main", False, found.call, found.forward, found.backward, found.step, chains, None
    )
    made = plan(path, Options(seen=shown))
    assert made.to_json()["skipped_validation"] == []
    (told,) = [each for each in texts(made.warnings) if "Validation is kept" in each]
    assert "might change scale, which is used at steps.py:2" in told


def test_what_a_validation_alone_is_read_to_call_is_not_unused(tmp_path: Path) -> None:
    """The run has shown that the step calls it as well."""
    source = ENGINE.replace(
        "def validate(net, data):",
        "SCALE = 1.0\n\ndef first(net, x):\n    return net[0](x) * SCALE\n\n"
        "def validate(net, data):\n    global SCALE\n    SCALE = 2.0",
    )
    source = source.replace("net(x).mean()", "first(net, x).mean()")
    call = 'globals()["fir" + "st"](engine.net, x)'
    source = source.replace("engine.net[0](x)", call)
    step = [f"hidden = {call}", "return net[0](x)"]
    document, warnings = planned(tmp_path, source, forward=step)
    assert document["skipped_validation"] == []
    at = line(source, "return net[0](x)")
    assert any(f"might change SCALE, which is used at line {at}" in each for each in warnings)


def test_what_runs_ahead_of_a_loop_that_was_called_by_an_unread_call_is_skipped_too(
    tmp_path: Path,
) -> None:
    first = "validate(nn.Linear(8, 1), [torch.randn(4, 8)])"
    source = ENGINE.replace("\nmain()\n", f'\n{first}\nglobals()["ma" + "in"]()\n')
    document, _ = planned(tmp_path, source)
    assert document["skipped_validation"] == [line(source, "score"), line(source, first)]


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ({"forward": ["torch.save(engine"]}, "not in the same iteration"),
        ({"forward": ["data = [torch"]}, "not in the same iteration"),
        ({"step": ["engine = Engine()"]}, "stands in no loop"),
    ],
)
def test_what_is_no_step_is_declined(tmp_path: Path, lines: dict[str, list[str]], why: str) -> None:
    with pytest.raises(Declined, match=why):
        planned(tmp_path, ENGINE, **lines)


def test_a_loop_that_yields_within_its_step_is_declined(tmp_path: Path) -> None:
    call = '        handlers["go"](hidden)'
    with pytest.raises(Declined, match="yields in the middle"):
        planned(tmp_path, ENGINE.replace(call, f"        yield n\n{call}"))


def test_a_yield_behind_the_timed_lines_stays_out_of_them(tmp_path: Path) -> None:
    call = '        handlers["up"]()'
    source = ENGINE.replace(call, f"        yield n\n{call}")
    document, _ = planned(tmp_path, source)
    assert document["region"]["end_line"] == line(source, 'handlers["go"](hidden)')
