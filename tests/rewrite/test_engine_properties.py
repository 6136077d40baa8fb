"""Whatever the module looks like and whatever is done to it, the way back is exact.

Modules are composed from statement forms and formatting; edits are drawn over all statements.
"""

from __future__ import annotations

import ast
import contextlib
import re
from codecs import BOM_UTF8
from collections.abc import Sequence

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from instrumentor.rewrite.engine import MARKER, apply_edits, strip
from instrumentor.rewrite.proofs.planned import check_planned
from instrumentor.shared.edits import Edit, Kind, Statement
from instrumentor.shared.errors import InstrumentError, ProofFailed

Lines = list[str]

SIMPLE = (
    "a()",
    "loss.backward()",
    "x = 1",
    "x += (1 +\n   2)",
    "pass",
    "y = '''one\n  # two\n\n\tthree'''",
    'log(f"""{x}\n# off| text\n""")',
    "z = 1 + \\\n  2",
    "del x",
    "größe = 'é'",
    "assert x, (\n# inside\n'message')",
    "w = [\n\n  1,  # one\n]",
    "if_ = lambda: 0",
)
HEADERS = (
    "if a:",
    "if (a and\n      b):",
    "while a:",
    "for i in a:",
    "with a as b, c:",
    "with (a,\n  b): ",
    "def f(x, *, y=1):",
    "@deco\n@deco(\n  1)\ndef g(\n):",
    "class A(B): ",
    "async def h():",
    "if a \\\n  or b:",
    "match a:",
    "try:",
)
COMMENTS = ("", "  ", "# note", "      # deep", "\t", "\f", "# off| x \\")


def indented(text: str, indent: str) -> str:
    """Indent only the lines that start a statement or a clause: the rest may be in a string."""
    head, *rest = text.split("\n")
    starts = ("def ", "@")
    return "\n".join(
        [indent + head, *(indent + one if one.startswith(starts) else one for one in rest)]
    )


@st.composite
def blocks(draw: st.DrawFn, indent: str, depth: int) -> str:
    """The lines of one block, each with its newline."""
    parts: Lines = []
    for _ in range(draw(st.integers(1, 3))):
        parts.extend(f"{line}\n" for line in draw(st.lists(st.sampled_from(COMMENTS), max_size=2)))
        if depth and draw(st.booleans()):
            parts.append(draw(compounds(indent, depth - 1)))
        else:
            parts.append(indent + draw(simple_lines()))
    return "".join(parts)


@st.composite
def simple_lines(draw: st.DrawFn) -> str:
    """One logical line of one or several simple statements."""
    statements = draw(st.lists(st.sampled_from(SIMPLE), min_size=1, max_size=3))
    between = draw(st.sampled_from(("; ", ";", " ;  ", "; \\\n ")))
    end = draw(st.sampled_from(("", "", ";", "  # why", "   ", " \\\n")))
    return between.join(statements) + end + "\n"


@st.composite
def suites(draw: st.DrawFn, indent: str, depth: int) -> str:
    """What follows a colon: one line, or a block."""
    if draw(st.integers(0, 2)) == 0:
        return " " + draw(simple_lines())
    unit = draw(st.sampled_from(("    ", "  ", "\t", " ")))
    trailing = draw(st.sampled_from(("", "  # header", " ")))
    return trailing + "\n" + draw(blocks(indent + unit, depth))


@st.composite
def compounds(draw: st.DrawFn, indent: str, depth: int) -> str:
    """A compound statement with the clauses that its kind may have."""
    header = draw(st.sampled_from(HEADERS))
    text = indented(header, indent)
    if header == "match a:":
        return f"{text}\n" + "".join(
            f"{indent} case {pattern}:" + draw(suites(indent + " ", depth))
            for pattern in ("1", "[x, *_] if x", "_")
        )
    text += draw(suites(indent, depth))
    clauses: Sequence[str] = ()
    if header.startswith("if"):
        clauses = draw(st.sampled_from(((), ("elif b:",), ("else:",), ("elif b:", "else :"))))
    elif header.startswith(("while", "for")):
        clauses = draw(st.sampled_from(((), ("else:",))))
    elif header == "try:":
        clauses = draw(
            st.sampled_from((("finally:",), ("except A as e:", "except (B,\n C):", "else:")))
        )
    for clause in clauses:
        comment = draw(st.sampled_from(("", f"{indent}# between\n", "\n")))
        text += comment + indent + clause + draw(suites(indent, depth))
    return text


@st.composite
def sources(draw: st.DrawFn) -> bytes:
    """A module as bytes: composed, then given newlines, an encoding, and an end."""
    text = draw(st.sampled_from(("", "#!/usr/bin/env python\n", '"""Doc\n"""\n', "\f\n")))
    if text != '"""Doc\n"""\n' and draw(st.booleans()):
        text += "from __future__ import annotations\n"
    text += draw(blocks("", 2))
    if draw(st.booleans()):
        text = text.rstrip("\n\\ ") + draw(st.sampled_from(("", "\n   ", "\n# end", "\n\n")))
    newlines = draw(st.sampled_from((("\n",), ("\r\n",), ("\r",), ("\n", "\r\n"), ("\n", "\r"))))
    if len(newlines) == 1:
        text = text.replace("\n", newlines[0])
    else:
        random = draw(st.randoms(use_true_random=False))
        text = re.sub("\n", lambda _: random.choice(newlines), text)
    encoding = draw(st.sampled_from(("utf-8", "utf-8", "utf-8-sig", "latin-1")))
    if encoding == "latin-1":
        text = "# -*- coding: latin-1 -*-\n" + text
    source = text.encode(encoding)
    # LibCST wants a line behind a continuation, CPython does not.
    assume(not re.search(rb"\\[\r\n]+\Z", source))
    try:
        ast.parse(source)
    except SyntaxError:
        assume(False)
    return source


CODES = ("new()", "if p:\n  q()\nelse:\n  r()", "s = '''1\n\n 2'''", "# why\nt(1,\n  2)\n\nu()")


@st.composite
def edited(draw: st.DrawFn) -> tuple[bytes, list[Edit]]:
    """A module with edits of some of its statements."""
    source = draw(sources())
    places = sorted(
        Statement(node.lineno, node.col_offset)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.stmt)
    )
    place = st.sampled_from(places)
    code = st.sampled_from(CODES)
    edit = st.one_of(
        st.builds(Edit, st.just(Kind.INSERT_BEFORE), place, code),
        st.builds(Edit, st.just(Kind.INSERT_AFTER), place, code),
        st.builds(Edit, st.just(Kind.DISABLE), place, st.sampled_from(("", *CODES))),
        st.builds(Edit, st.just(Kind.MOVE_AFTER), place, to=place),
        st.builds(Edit, st.just(Kind.PRELUDE), st.none(), code),
    )
    return source, draw(st.lists(edit, min_size=1, max_size=5))


def attempt(source: bytes, edits: Sequence[Edit]) -> bytes:
    """Apply what can be applied; edits that contradict each other are not the point here."""
    try:
        return apply_edits(source, edits)
    except ProofFailed as error:
        # A line of ours that ends in a lone carriage return is one with an empty line behind it.
        mixed = b"\n" in source and b"\r" in source.replace(b"\r\n", b"")
        refused = ("edit '", "proof 'reversible'") if mixed else "edit '"
        assert error.message.startswith(refused), error.message
        assume(False)
        raise


QUIET = settings(
    deadline=None,
    max_examples=100,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


@QUIET
@given(edited())
def test_edits_are_reversible_and_as_planned(case: tuple[bytes, list[Edit]]) -> None:
    source, edits = case
    result = attempt(source, edits)
    assert strip(result) == source
    assert result.endswith((b"\n", b"\r")) == source.endswith((b"\n", b"\r")) or not source
    check_planned(source, ast.parse(result), edits)
    assert MARKER.encode() in result


PIECES = (
    *(b"a", b"()", b"x = ", b"if a:", b"else:", b"def f():", b"'" * 3, b'"', b"(", b")", b"pass"),
    *(b"\n", b"\r", b"\r\n", b"\n    ", b"\n  ", b"\n\t", b"\f", b"\\", b"\\\n", b";", b" "),
    *(b"# c", b"# coding: latin-1", b"# coding: utf-7", BOM_UTF8, b"\xe9", b"\x00", b"\x0b"),
)


@QUIET
@given(st.lists(st.sampled_from(PIECES), max_size=14).map(b"".join), st.integers(0, 3), st.data())
def test_arbitrary_bytes_give_typed_errors_only(
    source: bytes, number: int, data: st.DataObject
) -> None:
    where = Statement(1, 0)
    with contextlib.suppress(SyntaxError, ValueError):
        body = ast.parse(source).body
        if body:
            node = body[number % len(body)]
            where = Statement(node.lineno, node.col_offset)
    kind = data.draw(st.sampled_from((Kind.INSERT_BEFORE, Kind.INSERT_AFTER, Kind.DISABLE)))
    try:
        result = apply_edits(source, [Edit(kind, where, "new()")])
    except InstrumentError:
        return
    assert strip(result) == source
    assert ast.dump(ast.parse(result)).count("id='new'") == 1


@QUIET
@given(st.lists(st.sampled_from((*PIECES, b"# [instrument] end", b"# [instrument]"))))
def test_strip_never_fails(pieces: list[bytes]) -> None:
    source = b"".join(pieces)
    stripped = strip(source)
    if MARKER.encode() not in source:
        assert stripped == source
