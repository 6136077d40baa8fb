"""Every invocation, through factories, containers, wrappers, loops and modules."""

from __future__ import annotations

from pathlib import Path

import pytest

from instrumentor.kernels.find import find_kernels
from instrumentor.locate.located import Declined
from tests.kernels.scripts import FIXTURES, KERNEL, found


def lines(source: str) -> list[int]:
    """Lines of the kernels' calls, counted from the text behind KERNEL."""
    offset = KERNEL.count("\n")
    return [i.leaf.line - offset for i in found(KERNEL + source).invocations]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("k(1, 2)\n", [1]),
        ("k(1, 2); k(3, 4)\n", [1, 1]),
        ("alias = k\nalias(1, 2)\n", [2]),
        ("def make():\n    return k\nmake()(1, 2)\n", [3]),
        ("def make():\n    return k\nm = make()\nm(1, 2)\n", [4]),
        ("def make():\n    return k\ndef outer():\n    return make()\nouter()(1, 2)\n", [5]),
        ("table = {'a': k}\ntable['a'](1, 2)\n", [2]),
        ("table = {}\ntable['a'] = k\ntable['a'](1, 2)\n", [3]),
        ("for f in [k]:\n    f(1, 2)\n", [2]),
        ("f, g = k, print\ng(1)\nf(1, 2)\n", [3]),
        ("import functools\nf = functools.partial(k, 1)\nf(2)\n", [3]),
        ("f = k if True else print\nf(1, 2)\n", [2]),
        ("x = [k(a, 2) for a in range(3)]\n", [1]),
        (
            "class M:\n    def __init__(self):\n        self.k = k\n"
            "    def go(self):\n        self.k(1, 2)\n",
            [5],
        ),
        ("if k(1, 2):\n    pass\n", [1]),
        ("with k(1, 2) as x:\n    k(3, 4)\n", [1, 2]),
        ("k = print\n", []),
        ("def f(k):\n    k(1)\n", []),
        ("print(k)\n", []),
    ],
)  # fmt: skip
def test_calls(source: str, expected: list[int]) -> None:
    assert lines(source) == expected


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("for i in range(3):\n    while x:\n        k(1, 2)\n", ["for i in range(3)", "while x"]),
        ("x = [k(a, 2) for a in items]\n", ["for ... in items"]),
    ],
)  # fmt: skip
def test_loops_around_a_call_are_told(source: str, told: list[str]) -> None:
    (invocation,) = found(KERNEL + source).invocations
    assert [text for _, _, text in invocation.loops] == told


def test_a_wrapper_that_is_called_twice_makes_two_invocations() -> None:
    source = KERNEL + "def f(a):\n    k(a, 2)\n\nf(1)\nfor _ in range(2):\n    f(3)\n"
    first, second = found(source).invocations
    assert [s.line for s in first.told_apart] == [10, 8]
    assert [s.line for s in second.sites] == [12, 8]
    assert first.loops == ()
    assert len(second.loops) == 1


def test_a_main_function_that_is_called_once_tells_nothing_apart() -> None:
    source = KERNEL + "def main():\n    k(1, 2)\n\nif __name__ == '__main__':\n    main()\n"
    (invocation,) = found(source).invocations
    assert [s.line for s in invocation.sites] == [11, 8]
    assert [s.line for s in invocation.told_apart] == [8]


def test_recursion_ends() -> None:
    source = KERNEL + "def f():\n    k(1, 2)\n    f()\n\nf()\n"
    assert found(source).invocations


def test_calls_inside_a_kernel_are_its_own() -> None:
    source = KERNEL + "@ttl.kernel()\ndef other(a, out):\n    k(a, out)\n\nother(1, 2)\n"
    assert [i.kernel.name for i in found(source).invocations] == ["other"]


def test_kernels_of_the_projects_own_modules(tmp_path: Path) -> None:
    (tmp_path / "ops").mkdir()
    (tmp_path / "ops" / "__init__.py").write_text("from ops.add import make\n")
    (tmp_path / "ops" / "add.py").write_text(
        "import ttl\ndef make(n):\n    @ttl.operation(grid=(1, 1))\n    def add(a, out):\n"
        "        pass\n    return add\n"
    )
    script = tmp_path / "bench.py"
    script.write_text(
        "import ops.add\nfrom ops import make\nk = make(3)\nk(1, 2)\nops.add.make(1)(3, 4)\n"
    )
    result = find_kernels(script, (tmp_path,))
    assert [(i.kernel.qualified, i.leaf.line) for i in result.invocations] == [
        ("make.add", 4),
        ("make.add", 5),
    ]


def test_tt_langs_own_modules_are_called_not_looked_into(tmp_path: Path) -> None:
    (tmp_path / "ttl").mkdir()
    (tmp_path / "ttl" / "__init__.py").write_text(
        "def kernel(grid=None):\n    def wrap(f):\n        return f\n    return wrap\n"
    )
    script = tmp_path / "bench.py"
    script.write_text(
        "import ttl\n@ttl.kernel()\ndef f(a, out):\n    pass\n"
        "g = ttl.kernel()(f)\nf(1, 2)\ng(3, 4)\n"
    )
    result = find_kernels(script, (tmp_path,))
    assert [(i.kernel.bound, i.leaf.line) for i in result.invocations] == [("f", 6), ("g", 7)]


def test_a_folder_of_kernels_called_ttlang_is_no_tt_lang(tmp_path: Path) -> None:
    folder = tmp_path / "matmul" / "ttlang"
    folder.mkdir(parents=True)
    (folder / "kernels.py").write_text(KERNEL)
    script = folder / "run.py"
    script.write_text("from kernels import k\nk(1, 2)\n")
    assert [i.leaf.line for i in find_kernels(script, (tmp_path, folder)).invocations] == [2]
    script.write_text(KERNEL + "k(1, 2)\n")
    assert [i.leaf.line for i in find_kernels(script, (tmp_path,)).invocations] == [7]


def test_a_call_through_a_method_is_reached_from_where_the_method_is_called() -> None:
    source = KERNEL + "class M:\n    def go(self):\n        k(1, 2)\n\nm = M()\nm.go()\nm.go()\n"
    assert [[s.line for s in i.sites] for i in found(source).invocations] == [[12, 9], [13, 9]]


def test_the_table_of_the_fixture() -> None:
    result = find_kernels(FIXTURES / "factory.py", (FIXTURES,))
    assert [i.leaf.text for i in result.invocations] == [
        "single(a, out)",
        "make_relu(8)(a, out)",
        "kernels[size](a, out)",
    ]


def test_a_file_that_is_no_python(tmp_path: Path) -> None:
    bad = tmp_path / "bad.py"
    bad.write_text("def (:\n")
    with pytest.raises(Declined, match=r"bad\.py:1: the file does not parse"):
        find_kernels(bad)
