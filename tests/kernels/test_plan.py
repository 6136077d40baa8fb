"""What the edits are that leave one invocation, and what is said of the others."""

from __future__ import annotations

import pytest

from instrumentor.locate.located import Declined
from instrumentor.rewrite.engine import apply_edits, strip
from instrumentor.rewrite.proofs import prove
from instrumentor.shared.edits import Kind
from tests.kernels.scripts import FIXTURES, KERNEL, planned

TWO = KERNEL + "@ttl.operation()\ndef other(a, out):\n    pass\n\n"


def rewritten(source: str, kernel: str = "", call: int | None = None) -> str:
    """The rewritten script without its prelude, proven."""
    plan = planned(source, kernel, call)
    (path,) = plan.edits
    data = source.encode()
    code = apply_edits(data, plan.edits[path])
    prove(data, code, plan.edits[path], allowed_names=plan.bound_names(path))
    assert strip(code) == data
    return code.decode().partition("# [instrument] end\n")[2]


def test_one_call_and_its_kernel_behind_the_gate() -> None:
    lines = rewritten(KERNEL + "k(a, out)\n").splitlines()
    assert "k = _instrument_gate.watch('k', k)  # [instrument]" in lines
    assert lines[-2:] == [
        "# [instrument] off| k(a, out)",
        "_instrument_gate.at(1, k)(a, out)  # [instrument]",
    ]


def test_a_kernel_that_returns_a_parameter_gives_that_one_back() -> None:
    source = (
        "import ttl\n@ttl.kernel()\ndef k(out, a):\n    return out\n\nx = k(1, 2)\ny = k(x, 3)\n"
    )
    assert "_instrument_gate.watch('k', k, 0)" in rewritten(source)


def test_all_calls_say_where_they_are_and_the_gate_knows_the_chosen_one() -> None:
    source = KERNEL + "k(1, 2)\ny = f(k(3, 4), k(5, 6))\n"
    text = rewritten(source, call=2)
    assert "y = f(_instrument_gate.at(2, k)(3, 4), _instrument_gate.at(3, k)(5, 6))" in text
    assert planned(source, "", 2).path == (2,)


def test_a_call_over_several_lines_keeps_its_arguments() -> None:
    source = KERNEL + "def main():\n    y = k(\n        a,  # first\n        'x\\\\ny',\n    )\n"
    text = rewritten(source)
    assert "_instrument_gate.at(1, k)(" in text
    assert "# first" in text


@pytest.mark.parametrize(
    "statement",
    [
        "x = 1; k(1, 2); y = 3\n",
        "for i in range(2): k(i, 2)\n",
        "if True: k(1, 2)\nelse: k(3, 4)\n",
        "def f():\n\treturn k(1, 2)\nf()\nf()\n",
        "make = lambda: k\nmake()(1, 2); k(1, '''a\n  b''')\n",
        "ä = 'ö'; k(ä, 2)\n",
        "assert k(1, 2) is None\n",
        "x: int = k(1, 2)\nx += k(3, 4)\n",
    ],
)
def test_other_shapes_are_proven(statement: str) -> None:
    assert "_instrument_gate.at(" in rewritten(KERNEL + statement)


def test_a_kernel_that_is_only_handed_on_is_gated_at_run_time() -> None:
    plan = planned(KERNEL + "bench(k, 1, 2)\n")
    assert plan.invocation is None
    assert plan.path is None
    assert "first one at run time" in plan.warnings[0]


def test_a_kernel_that_another_is_built_from_stays_as_it_is() -> None:
    source = KERNEL + "@ttl.operation()\ndef whole(a, out):\n    k(a, out)\n\nwhole(1, 2)\n"
    text = rewritten(source)
    assert "whole = _instrument_gate.watch" in text
    assert "k = _instrument_gate.watch" not in text
    both = rewritten(source + "k(3, 4)\n", "whole")
    assert "k = _instrument_gate.watch" in both


def test_of_two_headers_only_the_chosen_one_matters() -> None:
    text = rewritten(KERNEL + "k(1, 2)\nif k(3, 4):\n    pass\n", call=1)
    assert "if k(3, 4):" in text  # held back by the gate at the kernel itself


def test_a_call_in_a_function_that_nothing_calls_is_said_to_stand_there() -> None:
    source = KERNEL + "def test_k():\n    k(1, 2)\n"
    assert any("nothing calls test_k()" in w for w in planned(source).warnings)
    assert not planned(source + "test_k()\n").warnings


def test_warnings_for_loops_chains_and_other_calls() -> None:
    source = TWO + "t = 1\nfor i in range(3):\n    k(a, t)\nother(t, out)\nother(t, out)\n"
    assert any("repeats the call" in w for w in planned(source, "k").warnings)
    warnings = planned(source, "other", 2).warnings
    assert any("invocation 2 of 2" in w for w in warnings)
    assert any("t is read by the profiled call" in w for w in warnings)


def test_the_document() -> None:
    document = planned(KERNEL + "for i in range(3):\n    k(a, out)\nk(a, out)\n").to_json()
    assert document["schema"] == "instrument-kernel-plan/1"
    assert document["chosen"]["invocation"]["loops"][0]["text"] == "for i in range(3)"
    assert [i["number"] for i in document["held_back"]] == [2]
    assert [e["kind"] for e in document["edits"]] == [
        Kind.PRELUDE.value, Kind.INSERT_AFTER.value, Kind.DISABLE.value, Kind.DISABLE.value,
    ]  # fmt: skip
    assert document["edits"][2]["reason"] == "invocation 1 of k: the one that runs, once"


@pytest.mark.parametrize("name", sorted(p.name for p in FIXTURES.glob("*.py")))
def test_every_fixture_is_rewritten_or_asks(name: str) -> None:
    source = (FIXTURES / name).read_text(encoding="utf-8")
    if name == "two_kernels.py":
        with pytest.raises(Declined, match="several kernels"):
            planned(source)
    kernel = "apply" if name == "two_kernels.py" else ""
    assert "_instrument_gate.watch" in rewritten(source, kernel)
