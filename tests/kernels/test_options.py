"""Choices and their limits."""

from __future__ import annotations

from typing import Any

import pytest

from instrumentor.kernels.options import KernelOptions, parse_command, parse_shapes
from instrumentor.shared.errors import UsageError


@pytest.mark.parametrize(
    ("text", "shapes"),
    [("", ()), ("8192x64", ((8192, 64),)), ("8X4, 2x2,", ((8, 4), (2, 2))), ("7", ((7,),))],
)
def test_shapes(text: str, shapes: tuple[tuple[int, ...], ...]) -> None:
    assert parse_shapes(text) == shapes


@pytest.mark.parametrize("text", ["axb", "8x", "-1x2", "8x" * 60 + "8"])
def test_no_shapes(text: str) -> None:
    with pytest.raises(UsageError, match="expected ROWSxCOLS"):
        parse_shapes(text)


def test_a_command_is_split_as_a_shell_would() -> None:
    assert parse_command("pytest -k 'a b'") == ("pytest", "-k", "a b")
    with pytest.raises(UsageError, match="--validate '"):
        parse_command("'")


@pytest.mark.parametrize("changes", [{"mode": "x"}, {"chips": 0}, {"timeout_s": 0.0}])
def test_values_out_of_range(changes: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        KernelOptions(**changes)
