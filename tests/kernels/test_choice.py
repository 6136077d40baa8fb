"""Which kernel and call is chosen, and what is declined."""

from __future__ import annotations

import pytest

from instrumentor.locate.located import Declined
from instrumentor.shared.errors import UsageError
from tests.kernels.scripts import KERNEL, planned

TWO = KERNEL + "@ttl.operation()\ndef other(a, out):\n    pass\n\n"


def declined(source: str, kernel: str = "", call: int | None = None) -> Declined:
    with pytest.raises(Declined) as caught:
        planned(source, kernel, call)
    return caught.value


def test_no_kernel() -> None:
    (reason,) = declined("print(1)\n").reasons
    assert reason.kind == "no-kernel"


def test_several_kernels_are_the_users_choice() -> None:
    (reason,) = declined(TWO + "k(1, 2)\nother(3, 4)\n").reasons
    assert (reason.kind, reason.line) == ("several-kernels", 4)
    assert reason.remedy == "Choose one: --kernel k."


def test_a_result_that_only_running_makes() -> None:
    definition = "import ttl\n@ttl.kernel()\ndef k(a, out):\n    return a + out\n\n"
    source = definition + "y = k(1, 2)\nz = k(y, 3)\n"
    (reason,) = declined(source).reasons
    assert (reason.kind, reason.line) == ("result-used", 7)


def test_a_used_result_without_an_argument_to_stand_for_it() -> None:
    source = "import ttl\n@ttl.kernel()\ndef k():\n    pass\n\nk()\ny = k()\n"
    assert "no argument" in declined(source).reasons[0].message


@pytest.mark.parametrize(
    "statement",
    ["if k(1, 2):\n    pass\n", "while k(1, 2):\n    pass\n", "for x in k(1, 2):\n    pass\n",
     "with k(1, 2):\n    pass\n", "print(f'{k(1, 2)}')\n"],
)  # fmt: skip
def test_headers_and_f_strings_of_the_chosen_call(statement: str) -> None:
    (reason,) = declined(KERNEL + statement).reasons
    assert (reason.kind, reason.line) == ("compound-header", 7)
    assert "statement of its own" in reason.remedy


def test_names_and_numbers_that_do_not_exist() -> None:
    with pytest.raises(UsageError, match="no such kernel") as caught:
        planned(KERNEL + "k(1, 2)\n", "kk")
    assert "There are: k." in caught.value.hint
    with pytest.raises(UsageError, match="has 1 visible invocations"):
        planned(KERNEL + "k(1, 2)\n", "", 2)


def test_two_kernels_of_one_name_need_their_factories() -> None:
    body = "    @ttl.kernel()\n    def k(a, out):\n        pass\n    return k\n"
    source = f"import ttl\ndef one():\n{body}def two():\n{body}one()(1, 2)\ntwo()(1, 2)\n"
    with pytest.raises(UsageError, match="several kernels have this name"):
        planned(source, "k")
    assert planned(source, "two.k").kernel.factory == "two"
