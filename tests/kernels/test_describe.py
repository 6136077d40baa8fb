"""Kernels in every spelling: decorators, grid, threads, buffers and results."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from instrumentor.kernels.model import Grid, Kernel
from tests.kernels.scripts import FIXTURES, found


def one(decorator: str, before: str = "", body: str = "pass") -> Kernel:
    source = f"import ttl\n{before}\n@ttl.kernel({decorator})\ndef k(a, out):\n    {body}\n"
    (kernel,) = found(source).kernels
    return kernel


@pytest.mark.parametrize(
    ("decorator", "grid"),
    [
        ("grid=(2, 3)", Grid("tuple", "(2, 3)", (2, 3))),
        ("(4, 4)", Grid("tuple", "(4, 4)", (4, 4))),
        ("grid=8", Grid("tuple", "8", (8,))),
        ("grid='auto'", Grid("auto", "'auto'")),
        ("grid='full'", Grid("full", "'full'")),
        ("grid=lambda a, out: (1, 1)", Grid("callable", "lambda a, out: (1, 1)")),
        ("grid=choose", Grid("callable", "choose")),
        ("grid=GRID", Grid("tuple", "GRID", (2, 8))),
        ("grid=(N, 2 * N)", Grid("tuple", "(N, 2 * N)", (4, 8))),
        ("grid=(n, 1)", Grid("tuple", "(n, 1)")),
        ("grid=pick()", Grid("unknown", "pick()")),
        ("", Grid("default")),
    ],
)
def test_grid(decorator: str, grid: Grid) -> None:
    before = "GRID = (2, 8)\nN = 4\ndef choose(a, out):\n    return (1, 1)\n"
    kernel = one(decorator, before)
    assert replace(kernel.grid, line=None) == grid
    assert kernel.grid.line == (7 if decorator else None) and kernel.parameter_lines == (8, 8)


@pytest.mark.parametrize(
    ("body", "returns"),
    [("pass", ""), ("return out", "out"), ("return None", ""), ("return a + out", None)],
)
def test_returns(body: str, returns: str | None) -> None:
    assert one("grid=(1, 1)", body=body).returns == returns


def test_threads_and_buffers_of_a_whole_kernel() -> None:
    (kernel,) = found((FIXTURES / "add_one_core.py").read_text(encoding="utf-8")).kernels
    assert [(t.name, t.kind) for t in kernel.threads] == [
        ("read", "datamovement"),
        ("combine", "compute"),
        ("write", "datamovement"),
    ]
    assert [(b.name, b.tiles, b.factor) for b in kernel.buffers] == [
        ("a_dfb", (1, 1), 2),
        ("b_dfb", (1, 1), 2),
        ("out_dfb", (1, 1), 2),
    ]
    assert kernel.parameters == ("a", "b", "out")


def test_a_kernel_in_a_factory_says_so() -> None:
    (kernel,) = found((FIXTURES / "factory.py").read_text(encoding="utf-8")).kernels
    assert (kernel.qualified, kernel.factory) == ("make_relu.relu", "make_relu")
    assert kernel.buffers[0].tiles is None  # depends on the factory's argument


@pytest.mark.parametrize(
    ("imports", "decorator"),
    [
        ("import ttl", "ttl.kernel()"),
        ("import ttl", "ttl.operation(grid='auto')"),
        ("import ttl", "ttl.operation"),
        ("import ttlang as ttl", "ttl.kernel()"),
        ("import ttl as t", "t.operation()"),
        ("import ttl.api", "ttl.api.kernel()"),
        ("from ttl import kernel", "kernel()"),
        ("from ttl import operation as op", "op(grid=(1, 1))"),
        ("from ttlang import ttl", "ttl.kernel()"),
        ("from sim import ttl", "ttl.operation()"),
        ("from ttl import *", "operation()"),
        ("from ttlang.ttl_api import kernel", "kernel()"),
        ("import ttl\nop = ttl.operation", "op(grid=(1, 1))"),
        ("import ttl\none_core = ttl.operation(grid=(1, 1))", "one_core"),
    ],
)
def test_decorators_in_every_spelling(imports: str, decorator: str) -> None:
    (kernel,) = found(f"{imports}\n@{decorator}\ndef k(a, out):\n    pass\n").kernels
    assert (kernel.name, kernel.decorator in ("kernel", "operation")) == ("k", True)


@pytest.mark.parametrize(
    ("imports", "decorator"),
    [
        ("import triton as ttl", "ttl.kernel()"),
        ("from mine import kernel", "kernel()"),
        ("import ttl", "ttl.compute()"),
        ("import ttl", "ttl.other()"),
        ("import ttl\nother = ttl.signpost", "other('x')"),
        ("", "operation()"),
    ],
)
def test_what_only_looks_like_one(imports: str, decorator: str) -> None:
    assert found(f"{imports}\n@{decorator}\ndef k(a, out):\n    pass\n").kernels == ()
