"""Texts and paths as far as they are written out."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from instrumentor.read.bindings import Bindings
from instrumentor.read.syntax import parse
from instrumentor.read.written_texts import path_of, text_of


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ('f"models.{name}_model"', "models.*_model"),
        ('"models.%s.net" % name', "models.*.net"),
        ('"models." + once', "models.unet"),
        ('"models.{}".format(name)', "models.*"),
        ("os.path.dirname(once)", "."),
        ("os.path.dirname(name)", "*"),
        ("os.path.abspath(once + name)", "*"),
        ("str()", "*"),
    ],
)
def test_what_is_computed_is_left_open(written: str, text: str) -> None:
    source = parse(Path("/repo/train.py"), f'once = "unet"\nfound = {written}\n'.encode())
    value = source.tree.body[1]
    assert isinstance(value, ast.Assign)
    assert text_of(Bindings(source), source.tree, value.value) == text


@pytest.mark.parametrize("text", ["x = str(x)\n", "x = str(\n    x\n)\n", "x = str(y)\ny = x\n"])
def test_no_name_is_followed_to_itself(text: str) -> None:
    source = parse(Path("/repo/train.py"), text.encode())
    value = source.tree.body[0]
    assert isinstance(value, ast.Assign)
    assert path_of(Bindings(source), source.tree, value.value) is None
