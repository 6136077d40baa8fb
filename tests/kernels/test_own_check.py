"""Checks of a script's own that say that a kernel's result is right."""

from __future__ import annotations

import pytest

from instrumentor.kernels.own_check import own_check
from tests.kernels.scripts import KERNEL, found


@pytest.mark.parametrize(
    ("statement", "line"),
    [
        ("assert right(x)", 7),
        ("torch.testing.assert_close(x, y)", 7),
        ("if bad(x): raise AssertionError('no')", 7),
        ("if bad(x): sys.exit('no')", 7),
        ("sys.exit('no')", 7),
        ("sys.exit(0)", 0),
        ("sys.exit(main())", 0),
        ("raise ValueError('no')", 0),
        ("print(x)", 0),
        ("assert x.shape == y.shape", 0),
    ],
)
def test_a_scripts_own_check_is_one_outside_of_its_kernels(statement: str, line: int) -> None:
    assert own_check(found(KERNEL.replace("pass", "assert a") + f"\n{statement}\n")) == (
        line and line + 1
    )


def test_what_stands_before_a_call_checks_nothing_of_its_result() -> None:
    source = KERNEL + "assert shapes(a)\n\nk(a, out)\n{}\n"
    for check, line in (("", 0), ("assert right(out)", 10)):
        program = found(source.format(check))
        assert own_check(program, program.invocations[0]) == line
        assert own_check(program) == 7


@pytest.mark.parametrize(
    ("handler", "counts"),
    [
        ("except AssertionError as e: print(e)", False),
        ("except (ValueError, AssertionError): pass", False),
        ("except Exception: pass", False),
        ("except: pass", False),
        ("except AssertionError: print('no'); raise", True),
        ("except AssertionError as e: sys.exit(str(e) + 'no')", True),
        ("except ValueError: pass", True),
        ("finally: close()", True),
    ],
)
def test_a_check_that_is_caught_says_nothing(handler: str, counts: bool) -> None:
    program = found(KERNEL + f"k(a, out)\ntry:\n    assert right(out)\n{handler}\n")
    assert bool(own_check(program, program.invocations[0])) == counts


@pytest.mark.parametrize(
    ("use", "counts"),
    [
        ("check(out)", True),
        ("try:\n    check(out)\nexcept AssertionError as e:\n    print(e)", False),
        ("try:\n    outer(out)\nexcept Exception:\n    pass", False),
        ("try:\n    outer(out)\nfinally:\n    close()", True),
        ("with contextlib.suppress(AssertionError):\n    check(out)", False),
        ("with opened():\n    check(out)", True),
    ],
)
def test_a_check_in_a_function_is_caught_where_the_function_is_called(
    use: str, counts: bool
) -> None:
    functions = "def check(x):\n    assert right(x)\n    check(x)\ndef outer(x):\n    check(x)\n"
    program = found(KERNEL + f"k(a, out)\n{functions}{use}\n")
    assert bool(own_check(program, program.invocations[0], {"out"})) == counts


@pytest.mark.parametrize(
    ("behind", "counts"),
    [
        ("assert right(out)", True),
        ("got = to_torch(out)\nassert close(got, want)", True),
        ("got, _ = to_torch(out), 1\nok = close(got)\nif not ok: sys.exit('no')", True),
        ("rows = []\nrows.append(to_torch(out))\nassert close(rows)", True),
        ("def check(x, y):\n    assert close(x, y)\ncheck(to_torch(out), want)", True),
        ("def check(x, y):\n    assert close(x, y)\ncheck(y=to_torch(out), x=want)", True),
        ("def read():\n    return to_torch(out)\nassert close(read())", True),
        ("for row in to_torch(out):\n    assert close(row)", True),
        ("with torch.no_grad(), opened(out) as got:\n    assert close(got)", True),
        ("if (got := to_torch(out)) is None: raise AssertionError('no')", True),
        ("assert finite(a)", False),
        ("assert to_torch(out).shape == want.shape", False),
        ("k(b, other)\nassert right(to_torch(other))", False),
        ("import ttnn\nttnn.to_torch(out)\nassert ttnn.ready()", False),
    ],
)
def test_a_check_reads_what_the_kernel_wrote(behind: str, counts: bool) -> None:
    program = found(KERNEL + f"k(a, out)\n{behind}\n")
    assert bool(own_check(program, program.invocations[0], {"out"})) == counts
