"""Folders of runs that somebody prepared: each is read, or refused by name, and never a surprise.

Every value of every document is exchanged for what does not belong there, and what is then asked
for is all that the analysis can be asked: the summary, every report, and a comparison.
"""

from __future__ import annotations

import copy
import json
import math
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from instrumentor_analysis.compare.comparing import compare
from instrumentor_analysis.compare.side import load_side, side_of_document
from instrumentor_analysis.reports import detail, exports, perfetto
from instrumentor_analysis.reports.summary import console
from instrumentor_analysis.reports.write import write_all
from instrumentor_analysis.shared.documents import parsed
from instrumentor_analysis.shared.errors import AnalysisError
from instrumentor_analysis.summary.summarise import analyse
from tests.analysis.records import batch, event, run_folder, steady_events
from tests.conftest import ROOT

FACTS: dict[str, Any] = {
    "schema": "instrument-run/1", "script": "/p/train.py", "name": "a", "label": "",
    "arguments": ["--x"], "command": ["python"],
    "batch_size": 4, "batch_dim": 0, "batch_dim_guessed": False, "loop_fetches": True,
    "scope": "fwd+bwd", "accumulation": "branch",
    "duration_s": 1.5, "time_budget_s": 30.0, "started": "2026-01-01",
    "script_exit_code": 0, "failure": "it ended\nValueError: x", "profiler": "wallclock",
    "machine": {"cpus": 2, "other_cpus": 0.1},
    "verification": {
        "status": "partly", "verified": ["forward"], "unverified": {"backward": "why"},
        "problems": [], "notes": ["n"], "parameters": None, "cost_ms": 0.1,
    },
    "environment": {"packages": {"torch": "2"}, "devices": [], "cpu_count": 2},
    "warnings": [{"kind": "k", "message": "m", "weight": "note", "place": "", "hint": ""}],
    "loop": {"file": "/p/train.py", "line": 3}, "linked": ["d"], "linked_changed": [],
    "artifacts": {"log": "run.log"}, "interrupted": False, "partial": False,
    "causes": [{"kind": "graph break", "what": "print", "place": "a.py:3", "ms": 1.5, "count": 2}],
    "source_hashes": {"train.py": "0" * 64}, "untraced": {"profiler": "tracy"},
}  # fmt: skip
EVENTS: list[dict[str, Any]] = [
    event("step_compile", 30.0, device="tt", barrier="sync", **batch(4, 8)),
    *({**each, "start_s": 10 + at / 10} for at, each in enumerate(
        steady_events(*([2.0, 2.1] * 5), device="tt", barrier="sync", nodes=7, **batch(4, 8)))),
    {"event": "iteration", "pid": 1, "name": "step_steady_1", "index": 1, "ms": 3.0, "data_ms": 1},
    {"event": "barrier", "pid": 1, "device": "tt", "method": "sync", "idle": True, "left_ms": 0.1,
     "reads": 1, "cost_ms": 0.2},
    {"event": "memory", "pid": 1, "bytes": 1000},
    {"event": "model", "pid": 1, "trainable": 10, "frozen": 0},
    {"event": "compiled", "pid": 1, "name": "step_steady_4"},
    {"event": "steady", "pid": 1, "names": ["step_steady_1"]},
    {"event": "complete", "pid": 1, "samples": 12, "why": "budget"},
    {"event": "refused", "pid": 1, "reason": "why"},
    {"event": "warning", "pid": 1, "text": "t", "kind": "k"},
    {"event": "cancelled", "pid": 1, "name": "step_steady_2"},
    {"event": "complete", "pid": 1, "samples": 4, "why": "steps"},
    {"event": "phases", "pid": 1, "ms": 4.0, "parts": {"forward": 1.0}, "stepped": 1,
     "resident": {"forward": 9}, "allocated": {"forward": None}, "compiled": False},
    {"event": "same_batch", "pid": 1, "ms": 3.0, "data_ms": 0.1, "inside_data_ms": 0.2},
    {"event": "beside", "pid": 1, "of": "phases", "seconds": 1.0, "others_s": 0.1, "cpus": 2},
    {"event": "profiled", "pid": 1, "name": "step_profiled_1", "index": 1, "ms": 3.0},
    {"event": "collectives", "pid": 1, "rank": 0, "world": 2, "step": 0, "ms": 3.0,
     "backend": "gloo", "calls": [["gloo:all_reduce", 0.5, 1.0]]},
    {"event": "modules", "pid": 1, "what": "time",
     "rows": [[-1, "", "Net", 1, 3.0, 0], [0, "fc", "Linear", 2, 1.0, 0]], "uncounted": []},
    {"event": "modules", "pid": 1, "what": "flops", "rows": [[-1, "", "Net", 1, 0.0, 640]],
     "uncounted": ["aten::sort"]},
    {"event": "programs", "pid": 1, "ms": 10.0, "dropped": 0,
     "chips": {"0": {"programs": 4, "ms": 6.0, "busy_ms": 6.0, "untimed": 0}},
     "rest": {"0": {"programs": 1, "ms": 1.0, "busy_ms": 1.0, "untimed": 0}},
     "kernels": [["bmm", 3, 5.0]]},
]  # fmt: skip
READINGS: list[dict[str, Any]] = [
    {"device": "tt0", "t_s": at, "clock_mhz": 1000.0, "power_w": 80.0, "temperature_c": 60.0,
     "used": True}
    for at in (10.0, 10.1, 10.2, 10.3)
]  # fmt: skip
#: Of another type, endless, out of every range, no text, or what a page or a terminal would obey.
NASTY: tuple[Any, ...] = (
    {}, [], None, True, "x", -1, int("9" * 400), 1e308, 5e-324, float("nan"), "\ud800", "\udcff",
    "a\0b\n\x1b[2J</script>", [[1]], {"a": {"\ud800": "\0"}}, [None], 2**63,
)  # fmt: skip
STEPS = (0, 6, 11)  # of them, at each place


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where a value can be exchanged, the whole of it included."""
    yield path
    if isinstance(value, (dict, list)):
        keys = value if isinstance(value, dict) else range(min(1, len(value)))
        for key in keys:
            yield from places(value[key], (*path, key))


def exchanged(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """A copy with something else at one place."""
    if not path:
        return new
    made = copy.deepcopy(value)
    inner = made
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = new
    return made


def read_by_name(pattern: str) -> set[str]:
    """What the analysis asks documents for, by a search in its source."""
    package = ROOT / "analysis" / "instrumentor_analysis"
    texts = (path.read_text("utf-8") for path in package.rglob("*.py"))
    return {name for text in texts for name in re.findall(pattern, text)}


def test_every_fact_and_event_that_is_read_is_exchanged() -> None:
    facts = read_by_name(r'(?:facts\.get|folder\.mapping|self\.mapping|\.text)\("(\w+)"')
    events = read_by_name(r'\["event"\] [!=]= "(\w+)"')
    assert facts <= FACTS.keys() and events <= {each["event"] for each in EVENTS}, (
        facts - FACTS.keys(), events - {each["event"] for each in EVENTS},
    )  # fmt: skip


def ask_all(folder: Path, base: Path) -> None:
    """Everything that a report or a comparison does with a run folder."""
    try:
        analysis = analyse(folder)
        write_all(analysis.summary, folder, analysis=analysis, formats=("json", "markdown", "html"))
        compare(load_side(base), load_side(folder))
        compare(load_side(base), load_side(folder / "summary.json"))
    except AnalysisError:
        pass


def export_all(folder: Path) -> None:
    """Everything that is made of a run folder for other tools."""
    analysis = analyse(folder)
    for made in (exports.benchmark, exports.blacksmith):
        made(analysis.summary)  # json.dumps() refuses what is infinite
    perfetto.render(analysis.summary, detail.of(analysis))
    for line in exports.openmetrics(analysis.summary).splitlines():
        assert line.startswith("#") or math.isfinite(float(line.rpartition(" ")[2])), line
    tracked = exports.tracked(analysis.summary)
    assert all(map(math.isfinite, (*tracked.figures.values(), *tracked.series)))


@contextmanager
def told(planted: str) -> Iterator[None]:
    """What was planted where, if something ends in what nobody expects."""
    try:
        yield
    except BaseException:
        print(planted)
        raise


def planted(kind: str) -> list[Any]:
    """Each place of a document with some of what does not belong there, in turn."""
    found = list(places(FACTS))
    if kind != "facts":
        lines = {"events": EVENTS, "readings": READINGS[:1]}[kind]
        found = [(at, *path) for at, each in enumerate(lines) for path in places(each)]
    few = {"events": 1}.get(kind, len(STEPS))  # their many places are much alike
    return [(path, nasty) for at, path in enumerate(found) for nasty in nasties(at)[:few]]


def nasties(at: int) -> list[Any]:
    """Some of them, others at each place."""
    return [NASTY[(at + step) % len(NASTY)] for step in STEPS]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run_folder(tmp_path_factory.mktemp("runs") / "base", *EVENTS, **FACTS)


@pytest.mark.parametrize("kind", ["facts", "events", "readings"])
def test_whatever_a_folder_holds_it_is_read(kind: str, base: Path, tmp_path: Path) -> None:
    ask_all(base, base)
    whole = {"facts": FACTS, "events": EVENTS, "readings": READINGS}[kind]
    for path, new in planted(kind):
        made = exchanged(whole, path, new)
        text = json.dumps(made)
        if kind == "facts":
            folder = run_folder(tmp_path / "run", *EVENTS)
            (folder / "run.json").write_text(text)
        else:
            folder = run_folder(tmp_path / "run", *EVENTS, **FACTS)
            name = "timings.jsonl" if kind == "events" else "telemetry.jsonl"
            (folder / name).write_text("".join(json.dumps(e) + "\n" for e in made))
        with told(f"{kind} {path} = {new!r:.40}"):
            ask_all(folder, base)


@pytest.mark.parametrize("figure", [1e308, 1e99, 1e-29, 5e-324])
def test_no_figure_of_a_record_makes_an_endless_one(figure: float, tmp_path: Path) -> None:
    """In what is given to other tools: a page of Perfetto, a dashboard, a tracker."""
    for at, each in enumerate(EVENTS):
        for path in places(each):
            value = each
            for key in path:
                value = value[key]
            if not isinstance(value, (int, float)) or isinstance(value, bool):
                continue
            made = exchanged(EVENTS, (at, *path), figure)
            folder = run_folder(tmp_path / "run", *made, **FACTS)
            with told(f"{at} {path} = {figure}"), suppress(AnalysisError):
                export_all(folder)


def test_whatever_a_summary_holds_it_is_read_or_refused(base: Path) -> None:
    ask_all(base, base)
    document = json.loads((base / "summary.json").read_text())
    for at, path in enumerate(places(document)):
        for new in nasties(at):
            made = parsed(json.dumps(exchanged(document, path, new)))
            with told(f"{path} = {new!r:.40}"), suppress(AnalysisError):
                compare(load_side(base), side_of_document(made, "a", "a.json"))


def test_a_text_of_any_length_makes_no_report_longer(tmp_path: Path) -> None:
    """All texts of a folder at once, each longer than a report shows."""
    long, kinds = 60_000, ("x", "\n", "<&", "a ")

    def grown(value: Any, at: int = 0) -> Any:
        if isinstance(value, dict):
            kept = ("schema", "event", "name", "device", "barrier", "started", "artifacts")
            return {k: v if k in kept else grown(v, len(k)) for k, v in value.items()}
        if isinstance(value, list):
            return [grown(each, at) for each in value]
        return kinds[at % len(kinds)] * long if isinstance(value, str) else value

    events = [grown(each) if at == 22 or at > 10 else each for at, each in enumerate(EVENTS)]
    folder = run_folder(tmp_path / "run", *events, **grown(FACTS))
    analysis = analyse(folder)
    made = write_all(
        analysis.summary, folder, analysis=analysis, formats=("markdown", "html", "json")
    )
    assert made and "60,000 characters)" in console(analysis.summary)
    for path in (folder / "summary.md", folder / "report.html", folder / "summary.json"):
        text = path.read_text()
        assert "60,000 characters)" in text and len(text) < 500_000
