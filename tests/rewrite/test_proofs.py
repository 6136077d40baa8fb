"""Each proof on rewritings that are faulty in one way, and on sound ones."""

from __future__ import annotations

import ast
import os
import sys
from pathlib import Path

import pytest

from instrumentor.rewrite.engine import apply_edits
from instrumentor.rewrite.proofs import compiles_under, prove
from instrumentor.rewrite.proofs.planned import first_difference
from instrumentor.rewrite.proofs.scopes import collect_names
from instrumentor.shared.edits import Edit, Kind, Statement
from instrumentor.shared.errors import NotReady, ProofFailed

SCRIPT = b"""\
import torch

def train(model, loader, n):
    for batch in loader:
        loss = model(batch)
        value = loss.item()
        loss.backward()
        if value > n:
            print(value)

train(torch, [], 3)
"""


def insert(line: int, column: int, code: str, kind: Kind = Kind.INSERT_AFTER) -> Edit:
    return Edit(kind, Statement(line, column), code)


def off(line: int, column: int, code: str = "") -> Edit:
    return Edit(Kind.DISABLE, Statement(line, column), code)


def prove_edits(*edits: Edit, source: bytes = SCRIPT, allowed_names: tuple[str, ...] = ()) -> None:
    prove(source, apply_edits(source, edits), edits, allowed_names=allowed_names)


# Sound


@pytest.mark.parametrize(
    "edits",
    [
        [],
        [insert(7, 8, "print(loss, batch)")],
        [Edit(Kind.PRELUDE, None, "import time as _time"), insert(7, 8, "_time.sleep(0)")],
        [Edit(Kind.MOVE_AFTER, Statement(6, 8), to=Statement(7, 8))],
        [off(6, 8, 'value = float("nan")')],
        [off(6, 8), off(8, 8)],
        [off(6, 8), insert(4, 4, "value = 0", Kind.INSERT_BEFORE)],
        [insert(7, 8, "_fresh = [loss for loss in [1]]")],
    ],
)
def test_sound_edits_pass(edits: list[Edit]) -> None:
    prove_edits(*edits)


def test_names_that_were_undefined_before_do_not_matter() -> None:
    prove_edits(insert(2, 0, "more"), source=b"more\nless\n")


def test_the_caller_may_allow_names() -> None:
    edits = (insert(7, 8, "_recorder.end()"),)
    with pytest.raises(ProofFailed, match=r"'undefined'.*'_recorder'"):
        prove_edits(*edits)
    prove_edits(*edits, allowed_names=("_recorder",))


def test_inserted_code_may_read_what_python_gives_every_module() -> None:
    prove_edits(insert(7, 8, "print(__file__, __name__, len)"))


def test_python_warnings_of_the_file_stay_silent() -> None:
    prove_edits(insert(1, 0, "print()"), source=b"x = '\\d' is 1\n")


def test_a_file_is_compiled_without_the_future_of_the_proofs() -> None:
    prove_edits(insert(1, 0, "print()"), source=b"def f(x: (y := int)):\n    return x\n")


# Faulty


def fails(proof: str, original: bytes, instrumented: bytes, *edits: Edit) -> None:
    with pytest.raises(ProofFailed, match=f"^proof '{proof}' failed at line "):
        prove(original, instrumented, edits)


@pytest.mark.parametrize(
    "instrumented",
    [
        b"a = 1\nb = (\n",
        b"a = 1\nreturn  # [instrument]\n",
        b"a = 1\nb = '\x00'\n",
        b"a = 1\nfrom __future__ import annotations\n",
    ],
)
def test_compiles(instrumented: bytes) -> None:
    fails("compiles", b"a = 1\n", instrumented)


def test_an_original_that_does_not_compile_is_named() -> None:
    with pytest.raises(ProofFailed, match="at line 2: the original does not"):
        prove(b"a\nb = (\n", b"a\n", [])


@pytest.mark.parametrize(
    "instrumented", [b"a = 1\nb = 2 \n", b"a = 1\n", b"a = 1\r\nb = 2\n", b"a = 1\nb = 2\nc\n"]
)
def test_reversible(instrumented: bytes) -> None:
    fails("reversible", b"a = 1\nb = 2\n", instrumented)


@pytest.mark.parametrize(
    ("instrumented", "line"), [(b"b\nb\n", 1), (b"a\r\nb\n", 1), (b"a\nc\n", 2), (b"a\nb\nc\n", 3)]
)
def test_reversible_names_the_line(instrumented: bytes, line: int) -> None:
    with pytest.raises(ProofFailed, match=f"'reversible' failed at line {line} of the original"):
        prove(b"a\nb\n", instrumented, [])


@pytest.mark.parametrize(
    "instrumented",
    [
        b"a = 1\nb = 2\nd()  # [instrument]\n",
        b"a = 1\nb = 2\n",
        b"a = 1\nc()  # [instrument]\nb = 2\n",
        b"a = 1\n# [instrument] off| b = 2\nc()  # [instrument]\n",
        b"a = 1\nb = 2\nc()  # [instrument]\nc()  # [instrument]\n",
        b"# [instrument] off| a = 1\na = True  # [instrument]\nb = 2\nc()  # [instrument]\n",
    ],
)
def test_planned(instrumented: bytes) -> None:
    fails("planned", b"a = 1\nb = 2\n", instrumented, insert(2, 0, "c()"))


def test_planned_names_the_line() -> None:
    line = first_difference(ast.parse("a\nif b:\n    c\n"), ast.parse("a\nif b:\n    c\n    d\n"))
    assert line == 4
    assert first_difference(ast.parse("a = 0.0"), ast.parse("\na = -0.0")) == 2
    assert first_difference(ast.parse("a = 1"), ast.parse("a  =  1  # same")) is None


@pytest.mark.parametrize(
    ("edits", "message"),
    [
        ([off(6, 8)], "at line 8: 'value'"),
        ([off(1, 0)], "at line 11: 'torch'"),
        ([off(3, 0)], "'train'"),
        ([insert(7, 8, "_missing()")], "at line 8: '_missing'"),
        ([insert(7, 8, "def _f():\n    return _missing")], "at line 9: '_missing'"),
    ],
)
def test_undefined(edits: list[Edit], message: str) -> None:
    with pytest.raises(ProofFailed, match=f"^proof 'undefined' failed .*{message}"):
        prove_edits(*edits)


def test_a_global_does_not_stand_in_for_a_lost_local() -> None:
    source = b"loss = 0\ndef f():\n    loss = 1\n    return loss\n"
    with pytest.raises(ProofFailed, match="'undefined' failed at line 4: 'loss'"):
        prove_edits(off(3, 4), source=source)


def test_a_binding_by_a_global_statement_counts() -> None:
    source = b"def f():\n    global g\n    g = 1\ndef h():\n    return g\n"
    prove_edits(insert(5, 4, "g", Kind.INSERT_BEFORE), source=source)
    with pytest.raises(ProofFailed, match="'undefined' failed at line 5: 'g'"):
        prove_edits(off(3, 4), source=source)


def test_a_closure_that_lost_its_variable() -> None:
    source = b"def f(x):\n    y = x\n    return lambda: [y for _ in x]\n"
    with pytest.raises(ProofFailed, match="'undefined' failed at line 3: 'y'"):
        prove_edits(off(2, 4), source=source)


@pytest.mark.parametrize(
    ("edit", "name"),
    [
        (Edit(Kind.PRELUDE, None, "import loader"), "loader"),
        (Edit(Kind.PRELUDE, None, "def train(): pass"), "train"),
        (Edit(Kind.PRELUDE, None, "from a import b as batch"), "batch"),
        (Edit(Kind.PRELUDE, None, "class torch: pass"), "torch"),
        (insert(7, 8, "value = 2"), "value"),
        (insert(6, 8, "value = 2"), "value"),
        (insert(7, 8, "for n in range(3): pass"), "n"),
        (insert(7, 8, "[(n := 1) for _x in []]"), "n"),
    ],
)
def test_collisions(edit: Edit, name: str) -> None:
    with pytest.raises(ProofFailed, match=f"^proof 'collisions' failed at line .*'{name}'"):
        prove_edits(edit)
    prove_edits(edit, allowed_names=(name,))


def test_what_a_comprehension_binds_is_its_own() -> None:
    """Also where the interpreter inlines it, as CPython does since 3.12."""
    source = b"loss = 0\nfor n in range(3):\n    step = n\n"
    prove_edits(insert(3, 4, "[loss for loss in []]"), source=source)
    source = b"loss = 0\ntotal = [loss for loss in [1]]\n"
    with pytest.raises(ProofFailed, match="collisions"):
        prove_edits(off(2, 0), insert(2, 0, "loss = 1", Kind.INSERT_BEFORE), source=source)


def test_scopes_are_read_as_the_compiler_has_them() -> None:
    source = """
import a.b, c as d
from e import *
def f(p: ann = default, *args, k=other) -> ret:
    global g
    g = local = p
    def inner():
        nonlocal local
        local = super, __class__
        return local, missing
    return [x + (w := y) for x in first for y in second if x if free], w, lambda z=local: z + q
class C(Base, metaclass=Meta):
    attribute = 1
    def method(self):
        return __class__, attribute
    listed = [attribute for _ in attribute]
try:
    pass
except Error as caught:
    del caught
match subject:
    case {"k": v, **rest} | [v, *rest]:
        pass
noted: Annotation = value
"""
    names = collect_names(source)
    bound = {"a", "d", "f", "g", "C", "caught", "v", "rest", "noted"}
    assert names.of_module == bound
    read = {name for found in names.from_module.values() for name in found}
    globals_of_f = {"ann", "default", "other", "ret", "missing", "first", "second", "free", "q"}
    of_class = {"Base", "Meta", "attribute", "Error", "subject", "super"}
    of_module = {"Annotation", "value"}
    assert read - {"__class__"} == globals_of_f | of_class | of_module
    inside = {name for found in names.from_function.values() for name in found}
    assert inside == {"p", "local", "x", "y", "w", "z", "__class__", "attribute"}
    assert {"self", "args", "k", "listed", "_"} <= names.all and "*" not in names.all


def test_a_name_that_is_bound_for_a_function_around_is_none_of_the_module() -> None:
    """Nor is what a class between the two binds."""
    names = collect_names(
        "def f():\n    x = y = 1\n    class C:\n        nonlocal x\n        x = y = z = 2\n"
        "        def g(self):\n            nonlocal y\n            y = x\n"
        "            return y, z\n"
    )
    assert names.from_module == {".f.C.g": {"z"}}
    assert names.from_function == {".f.C.g": {"x", "y"}}
    assert names.of_module == {"f"} and names.all == {*"Cfgxyz", "self", "__class__"}


def test_the_class_of_a_method_is_bound_in_methods_alone() -> None:
    names = collect_names(
        "def f():\n    return __class__\nclass C:\n    def g(self):\n        return __class__\n"
    )
    assert names.from_module == {".f": {"__class__"}}
    assert names.from_function == {".C.g": {"__class__"}}


def test_deferred_annotations_read_nothing() -> None:
    names = collect_names(
        "from __future__ import annotations\nx: A = b\ndef f(y: C) -> D:\n    z: E\n"
    )
    assert set().union(*names.from_module.values()) == {"b"} and "z" in names.all


@pytest.mark.skipif(sys.version_info < (3, 12), reason="type parameters came with Python 3.12")
def test_type_parameters_have_a_scope_of_their_own() -> None:
    names = collect_names(
        "def f[T](x: T) -> T:\n    return T\nclass C[U](B[U]):\n    y: U\ntype A[V] = list[V]\n"
    )
    assert names.of_module == {"f", "C", "A"}
    assert set().union(*names.from_module.values()) == {"B", "list"}


# Another interpreter


def test_compiles_under() -> None:
    python = Path(sys.executable)
    assert compiles_under(python, b"# coding: latin-1\nx = '\xe9'\r\n", "train.py") is None
    error = compiles_under(python, b"a = 1\nreturn\n", "folder/train.py")
    assert error is not None and error.startswith("folder/train.py:2: ")
    assert compiles_under(python, b"\x00", "train.py") is not None


def test_compiles_under_does_not_take_the_file_for_a_module_path(tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    source = f"open({os.fspath(marker)!r}, 'w')\n".encode()
    assert compiles_under(Path(sys.executable), source, "x.py") is None
    assert not marker.exists()


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (None, "cannot be run: "),
        ("#!/bin/sh\necho lost >&2\nexit 9\n", "ended with code 9: lost"),
    ],
)
def test_an_interpreter_that_cannot_run(tmp_path: Path, body: str | None, why: str) -> None:
    python = tmp_path / "python"
    if body is not None:
        python.write_text(body)
        python.chmod(0o755)
    with pytest.raises(NotReady) as caught:
        compiles_under(python, b"a\n", "train.py")
    assert caught.value.message.startswith(f"the interpreter {python} {why}")
    assert "--python" in caught.value.hint
