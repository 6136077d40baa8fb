"""Every way to spell tt-lang's decorators, and what only looks like one."""

from __future__ import annotations

import pytest

from tests.kernels.scripts import found


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
def test_kernels(imports: str, decorator: str) -> None:
    (kernel,) = found(f"{imports}\n@{decorator}\ndef k(a, out):\n    pass\n").kernels
    assert kernel.name == "k"
    assert kernel.decorator in ("kernel", "operation")


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
def test_no_kernels(imports: str, decorator: str) -> None:
    assert found(f"{imports}\n@{decorator}\ndef k(a, out):\n    pass\n").kernels == ()
