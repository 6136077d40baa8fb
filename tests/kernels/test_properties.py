"""Scripts composed at random: whichever invocation is chosen, that one runs, once, and only it."""

from __future__ import annotations

import json
import sys
import types
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from instrumentor.kernels.plan import KernelPlan
from instrumentor.rewrite.engine import apply_edits, strip
from instrumentor.rewrite.proofs import prove
from tests.kernels.scripts import planned

HEAD = """\
import ttl

@ttl.kernel(grid=(1, 1))
def k(a, out):
    ran.append(a)

def make(n):
    @ttl.operation()
    def inner(a, out):
        ran.append(('inner', a))
    return inner

def wrap(a):
    k(a, 'out')
    return a

table = {'k': k}

"""
STATEMENTS = (
    "k(1, 'out')",
    "x = k(2, 'out'); k(3, 'out')",
    "for i in range(3): k(i, 'out')",
    "for i in range(2):\n    wrap(i)\n    if i:\n        k('nested', 'out')",
    "wrap(wrap(7))",
    "y = [k(n, 'out') for n in range(3)]",
    "table['k']('table', 'out')",
    "make(3)(8, 'out')",
    "m = make(4)\nm(9, 'out')",
    "z = (\n    k(\n        10,  # ten\n        'out',\n    )\n)",
    "def main():\n    return k('main', 'out')\nmain()",
    "try:\n    k('try', 'out')\nfinally:\n    k('finally', 'out')",
    "print(k('print', 'out'), file=quiet)",
    "hand_on(k)",
    "v = k('a', 'out') if k('b', 'out') else None",
    "while not done: done = k('while', 'out')",
)


@pytest.fixture(autouse=True)
def _ttl(monkeypatch: pytest.MonkeyPatch) -> None:
    package: Any = types.ModuleType("ttl")
    package.kernel = package.operation = lambda **settings: lambda function: function
    monkeypatch.setitem(sys.modules, "ttl", package)
    monkeypatch.setattr("atexit.register", lambda function: function)


def run(plan: KernelPlan, source: str, record: Path) -> list[Any]:
    """What ran in the rewritten script."""
    import io

    (path,) = plan.edits
    code = apply_edits(source.encode(), plan.edits[path])
    prove(source.encode(), code, plan.edits[path], allowed_names=plan.bound_names(path))
    assert strip(code) == source.encode()
    sys.modules.pop("_instrument_gate", None)
    record.unlink(missing_ok=True)
    ran: list[Any] = []
    names = {
        "__file__": str(path), "ran": ran, "quiet": io.StringIO(), "done": False,
        "hand_on": lambda function: function("handed on", "out"),
    }  # fmt: skip
    exec(compile(code, str(path), "exec", dont_inherit=True), names)
    sys.modules.pop("_instrument_gate", None)
    return ran


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(st.sampled_from(STATEMENTS), min_size=1, max_size=4, unique=True))
def test_the_chosen_invocation_alone_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, statements: list[str]
) -> None:
    record = tmp_path / "kernel.jsonl"
    monkeypatch.setenv("INSTRUMENT_RECORD", str(record))
    source = HEAD + "\n".join(statements) + "\n"
    for kernel in ("k", "make.inner"):
        plan = planned(source, kernel)
        count = len(plan.found.of(plan.kernel))
        for call in range(1, count + 1) if count else (None,):
            chosen = planned(source, kernel, call)
            ran = run(chosen, source, record)
            events = [json.loads(line) for line in record.read_text().splitlines()]
            started = [event for event in events if event["event"] == "kernel-start"]
            assert len(ran) == len(started) <= 1
            assert {event["kernel"] for event in started} <= {kernel}
            assert len(ran) == 1 or not _reached(chosen, statements)


def _reached(plan: KernelPlan, statements: list[str]) -> bool:
    """Whether the script certainly comes to the chosen invocation."""
    if plan.invocation is None:
        return plan.kernel.name == "k" and "hand_on(k)" in statements
    if "if k('b'" in plan.invocation.leaf.source.data.decode():
        return False  # of a conditional expression's two calls only one may be evaluated
    return plan.invocation.leaf.function != "wrap" or any("wrap(" in s for s in statements)
