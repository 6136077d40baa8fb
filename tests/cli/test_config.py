"""Defaults of `[tool.instrument]`: which file counts, what it may hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from instrumentor.cli.config import find_defaults
from instrumentor.shared.errors import UsageError


def write(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "pyproject.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_no_file_no_defaults(tmp_path: Path) -> None:
    assert find_defaults(tmp_path) == ({}, None)


def test_the_nearest_table_counts(tmp_path: Path) -> None:
    write(tmp_path, "[tool.instrument]\nsteps = 7\n")
    near = write(tmp_path / "a", "[tool.instrument]\nkeep-validation = true\n")
    assert find_defaults(tmp_path / "a" / "b") == ({"keep_validation": True}, near)


def test_a_file_without_the_table_is_passed_over(tmp_path: Path) -> None:
    far = write(tmp_path, "[tool]\ninstrument.steps = 7\n")
    write(tmp_path / "a", "[tool.other]\nsteps = 1\n")
    assert find_defaults(tmp_path / "a") == ({"steps": 7}, far)


def test_a_broken_file_of_somebody_else_is_not_read(tmp_path: Path) -> None:
    write(tmp_path, "not [ toml")
    assert find_defaults(tmp_path) == ({}, None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[tool.instrument]\nsteps = \n", "not TOML"),
        ("[tool]\ninstrument = 3\n", "must be a table"),
    ],
)
def test_a_broken_table_is_an_error(tmp_path: Path, text: str, message: str) -> None:
    write(tmp_path, text)
    with pytest.raises(UsageError, match=message):
        find_defaults(tmp_path)
