"""Folders of kernels' runs that somebody prepared: each is read, or refused by name."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from instrumentor_analysis.kernels.report import report
from instrumentor_analysis.kernels.run_facts import run_facts
from instrumentor_analysis.reports import kernel
from instrumentor_analysis.shared.errors import AnalysisError
from tests.analysis.kernels.printed import AUTO, DEVICE_LOG, PERF
from tests.analysis.shared.test_documents_planted import exchanged, nasties, places
from tests.conftest import ROOT

FACTS: dict[str, Any] = {
    "name": "k", "script": "/p/k.py", "kernel": "add", "mode": "perf", "arch": "wormhole",
    "rerun": "python k.py", "source_text": "a\nb", "source_file": "/p/k.py", "warnings": ["w"],
    "invocation": {"number": 1, "line": 3, "through": [{"line": 2}]}, "validated": False,
    "grid": {"kind": "tuple", "text": "(2, 2)", "line": 1}, "threads": [{"name": "t", "line": 3}],
    "buffers": [{"name": "b", "line": 1, "tiles": [1, 2], "factor": 2}], "tensors": ["a"],
    "production": {"shapes": [[1, 2]], "chips": 2}, "line_map": {"1": 2}, "script_exit_code": 0,
    "chained": [{"from": "a", "to": "b", "tensor": "t"}], "own_check": 1,
    "validation": {"ok": False, "by": "x", "detail": "d", "later": 1},
    "parameters": ["a", "b"], "parameter_lines": [1, 2], "given": {"a": "b", "b": "a"},
}  # fmt: skip
SIMULATION: dict[str, Any] = {
    "complete": False, "events": 1, "operations": 1, "grid": [2, 2], "l1_bytes": 10,
    "problem": {"kind": "deadlock", "message": "m", "file": "f", "line": 1, "thread": "t",
                "node": 1, "buffer": "b",
                "blocked": [{"thread": "t", "operation": "wait", "buffer": "b", "file": "f",
                             "line": 1, "nodes": [0]}]},
    "tensors": {"a": {"shape": [32, 32], "dtype": "bf16", "units": 1, "unit_bytes": 2048}},
    "buffers": {"b": {"shape": [1, 1], "blocks": 2, "bytes": 4096, "deepest": 1}},
    "copies": [[0, "t", "a", "read", 1, 1, 0, 0, 1], [1, "t", "a", "write", 1, 1, 0, 0, 1]],
    "blocks": [[0, "t", "b", "wait", 1, 1, 1, 0]], "pipes": [[0, "p", "send", 1, 1]],
    "threads": [[0, "t", "compute", True]], "flops": [[0, 10]], "starts": [[0, "t", 1, 1]],
    "places": [{"thread": "t", "what": "read", "name": "a", "buffer": "b", "file": "f",
                "line": 1, "count": 1}],
    "same": {"b": "a"}, "reached": {"a": {"never": 1, "box": [[0, 1]], "first": [0]}},
    "written": {"a": {"never": 1, "again": 1, "box": [[0, 1]], "first": [0],
                      "clashes": [{"tile": [0], "differ": True,
                                   "earlier": {"node": 0, "thread": "t", "file": "f", "line": 1},
                                   "later": {"node": 1, "thread": "t", "file": "f", "line": 1}}]}},
}  # fmt: skip
RECORD: dict[str, Any] = {
    "event": "kernel-start", "arguments": [{"name": "0", "shape": [32, 32], "dtype": "bfloat16"}],
}  # fmt: skip


def asked(path: Path, run: Any, simulation: Any = None, record: Any = RECORD) -> Any:
    """All that is made of a folder: the terminal's, the page and the document."""
    path.mkdir(exist_ok=True)
    (path / "run.json").write_text(json.dumps(run))
    (path / "run.log").write_text(PERF + AUTO)
    (path / "profile_log_device.csv").write_text(DEVICE_LOG)
    (path / "kernel.jsonl").write_text(json.dumps(record))
    if simulation is not None:
        (path / "simulation.json").write_text(json.dumps(simulation))
    try:
        found = report(path)
    except AnalysisError:
        return None
    page, shown = kernel.html(found), kernel.console(found)
    assert "<script>alert" not in page and "\x1b" not in shown + page
    return page, shown, json.dumps(found.to_json(), allow_nan=False)


def test_every_fact_that_is_read_is_exchanged() -> None:
    package = ROOT / "analysis" / "instrumentor_analysis"
    files = [*(package / "kernels").glob("*.py"), *(package / "reports").glob("kernel*.py")]
    texts = [path.read_text("utf-8") for path in files]
    read = {name for text in texts for name in re.findall(r'\brun\.get\("(\w+)"', text)}
    assert read <= FACTS.keys(), read - FACTS.keys()


def test_whatever_run_json_holds_it_is_read(tmp_path: Path) -> None:
    for at, path in enumerate(places(FACTS)):
        for turn, new in enumerate((*nasties(at), "<script>alert(1)</script>", [[["x"]]], [5])):
            simulation = SIMULATION if (at + turn) % 2 else None
            try:
                asked(tmp_path / "run", exchanged(FACTS, path, new), simulation)
            except Exception:
                print(f"{path} = {new!r:.40}")
                raise


@pytest.mark.parametrize("complete", [False, True])
def test_whatever_the_simulator_is_said_to_have_counted(tmp_path: Path, complete: bool) -> None:
    whole = {**SIMULATION, "complete": complete}
    if complete:
        del whole["problem"]
    for at, path in enumerate(places(whole)):
        for new in (*nasties(at), 0, 10**12, [10**9, 10**9], "write"):
            try:
                asked(tmp_path / "run", FACTS, exchanged(whole, path, new))
            except Exception:
                print(f"{path} = {new!r:.40}")
                raise


def test_whatever_the_gate_is_said_to_have_recorded(tmp_path: Path) -> None:
    for at, path in enumerate(places(RECORD)):
        for new in (*nasties(at), 10**12, [10**12] * 1000):
            asked(tmp_path / "run", FACTS, None, exchanged(RECORD, path, new))


@pytest.mark.parametrize("simulated", [False, True])
def test_a_text_of_any_length_makes_no_page_longer(tmp_path: Path, simulated: bool) -> None:
    long = 200_000

    def grown(value: Any) -> Any:
        if isinstance(value, dict):
            kept = ("event", "mode", "kind", "source_text", "operation", "arch")
            return {k: v if k in kept else grown(v) for k, v in value.items()}
        if isinstance(value, list):
            return [grown(each) if isinstance(each, dict) else each for each in value]
        return value + "y" * long if isinstance(value, str) else value

    simulation = SIMULATION if simulated else None
    made = asked(tmp_path / "run", grown(FACTS), simulation, grown(RECORD))
    assert made is not None
    for text in made:
        assert "characters)" in text and len(text) < 1_500_000


def test_what_fits_stays(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(json.dumps({**FACTS, "arch": 5, "other": [1]}))
    expected = {key: value for key, value in FACTS.items() if key != "arch"}
    assert run_facts(tmp_path) == {**expected, "other": [1]}
    assert run_facts(tmp_path / "gone") == {}
