"""The recorder as one text: as a module of its own, and as a block of a script's."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import symtable
from pathlib import Path

import pytest

from instrumentor.runtime.bundle import (
    FOLDER,
    MODULE,
    OBSERVING,
    SHARED,
    block_text,
    module_text,
    modules_of,
)
from instrumentor.shared.options import Options

SCRIPT = """\
import os
_instrument.begin()
_instrument.end()
print(_instrument.finished(), _instrument.sampling.steps)
"""


#: With what the reports compute as well.
PATHS = [*FOLDER.glob("*.py"), SHARED / "order_statistics.py"]
MODULES = {p.stem: p for p in sorted(PATHS, key=lambda p: p.stem) if p.stem != "__init__"}


def test_every_module_is_part_of_it_behind_those_that_it_uses() -> None:
    parts = modules_of("recorder", *OBSERVING)
    assert sorted(parts) == [*MODULES]
    names = list(parts)
    assert names.index("records") < names.index("recorder") < names.index("whole_step")


@pytest.mark.parametrize("name", MODULES)
def test_a_module_holds_nothing_that_joining_would_spoil(name: str) -> None:
    tree = ast.parse(MODULES[name].read_text(encoding="utf-8"), feature_version=(3, 8))
    docstrings = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Expr)}
    texts = [n for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
    assert all(n.lineno == n.end_lineno or id(n) in docstrings for n in texts)


@pytest.mark.parametrize("form", ["module", "block"])
def test_it_runs_by_itself(form: str, tmp_path: Path, interpreter: Path) -> None:
    options = Options(steps=1, warmup=0, profiler="wallclock")
    head = f"from {MODULE} import recorder as _instrument\n"
    if form == "block":
        head = block_text(options, "_instrument") + "\n"
    else:
        (tmp_path / f"{MODULE}.py").write_text(module_text(options))
    script = tmp_path / "train.py"
    script.write_text(head + SCRIPT)
    record = tmp_path / "record.jsonl"
    environment = {k: v for k, v in os.environ.items() if not k.startswith("INSTRUMENT_")}
    done = subprocess.run(
        [interpreter, script],
        env={**environment, "INSTRUMENT_RECORD": str(record)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "True 1" in done.stdout
    events = [json.loads(line) for line in record.read_text().splitlines()]
    assert [e["event"] for e in events] == [
        *("load", "witness", "warning", "sample", "resident", "complete", "leaving")
    ]
    assert events[0]["file"] == str(script)


def test_no_name_means_two_things_in_the_joined_text() -> None:
    """Modules of the recorder share one namespace: a later one would change an earlier one's."""
    defined: dict[str, list[str]] = {}
    for module, (_, body) in modules_of("recorder", *OBSERVING).items():
        table = symtable.symtable(body, module, "exec")
        for symbol in table.get_symbols():
            if symbol.is_assigned():
                defined.setdefault(symbol.get_name(), []).append(module)
    assert {name: where for name, where in defined.items() if len(where) > 1} == {}
