"""Edits on one file: refusals first, then what each shape becomes, then every odd format."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from instrumentor.rewrite.engine import MARKER, apply_edits, strip
from instrumentor.rewrite.proofs.planned import check_planned
from instrumentor.shared.edits import Edit, Kind, Statement
from instrumentor.shared.errors import ProofFailed, UsageError


def where(source: str | bytes, text: str) -> Statement:
    """The address of the statement that starts with the first occurrence of a text."""
    raw = source.encode() if isinstance(source, str) else source
    raw = raw.removeprefix(b"\xef\xbb\xbf")
    before = raw[: raw.index(text.encode())].replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    line = before.count(b"\n") + 1
    return Statement(line, len(before) - (before.rfind(b"\n") + 1))


def before(source: str | bytes, text: str, code: str = "new()") -> Edit:
    return Edit(Kind.INSERT_BEFORE, where(source, text), code)


def after(source: str | bytes, text: str, code: str = "new()") -> Edit:
    return Edit(Kind.INSERT_AFTER, where(source, text), code)


def disable(source: str | bytes, text: str, code: str = "") -> Edit:
    return Edit(Kind.DISABLE, where(source, text), code)


def move(source: str | bytes, text: str, to: str) -> Edit:
    return Edit(Kind.MOVE_AFTER, where(source, text), to=where(source, to))


def prelude(source: str | bytes, text: str | None, code: str = "import time as _time") -> Edit:
    return Edit(Kind.PRELUDE, None if text is None else where(source, text), code)


def rewritten(source: str | bytes, *edits: Edit) -> bytes:
    """The instrumented file, after the checks that hold for every one."""
    raw = source.encode() if isinstance(source, str) else source
    result = apply_edits(raw, edits)
    assert strip(result) == raw
    assert MARKER.encode() in result
    check_planned(raw, ast.parse(result), edits)
    with pytest.raises(UsageError):
        apply_edits(result, edits)
    return result


def check(source: str, edits: list[Edit], expected: str) -> None:
    assert rewritten(source, *edits).decode() == expected


# What is refused, and what is left alone


def test_no_edits_no_change() -> None:
    assert apply_edits(b"a = 1\r\n\fb\r", []) == b"a = 1\r\n\fb\r"


@pytest.mark.parametrize("source", [b"a()  # [instrument]\n", b's = "# [instrument]"\n'])
def test_a_file_with_the_marker_is_refused(source: bytes) -> None:
    with pytest.raises(UsageError, match="already instrumented"):
        apply_edits(source, [])


@pytest.mark.parametrize(
    ("edits", "why"),
    [
        (
            [Edit(Kind.INSERT_AFTER, Statement(1, 1), "x")],
            "no statement starts at line 1, column 1",
        ),
        ([Edit(Kind.INSERT_AFTER, Statement(99, 0), "x")], "no statement starts at line 99"),
        ([Edit(Kind.INSERT_AFTER, None, "x")], "does not say where"),
        ([Edit(Kind.MOVE_AFTER, Statement(1, 0))], "does not say where"),
        (
            [Edit(Kind.DISABLE, Statement(1, 0)), Edit(Kind.DISABLE, Statement(1, 0))],
            "another edit",
        ),
        (
            [Edit(Kind.DISABLE, Statement(2, 0)), Edit(Kind.INSERT_AFTER, Statement(3, 4), "x")],
            "line 3: the statement is an elif, or inside of one that is taken out",
        ),
        (
            [Edit(Kind.MOVE_AFTER, Statement(2, 0), to=Statement(3, 4))],
            "inside of one that is taken out",
        ),
        ([Edit(Kind.DISABLE, Statement(4, 0))], "is an elif"),
        ([Edit(Kind.INSERT_AFTER, Statement(4, 0), "x")], "is an elif"),
        ([Edit(Kind.INSERT_AFTER, Statement(1, 0), "x (")], "does not parse"),
        ([Edit(Kind.INSERT_AFTER, Statement(1, 0), "if x:\npass\nelse:")], "does not parse"),
        ([Edit(Kind.INSERT_AFTER, Statement(1, 0), f"x  {MARKER}")], "holds the marker"),
    ],
)
def test_impossible_edits_are_refused(edits: list[Edit], why: str) -> None:
    source = b"a = 1\nif a:\n    b()\nelif c:\n    d()\n"
    with pytest.raises(ProofFailed, match=why):
        apply_edits(source, edits)


def test_a_refusal_names_the_pass() -> None:
    edit = Edit(Kind.INSERT_AFTER, None, "x", pass_name="timers")
    with pytest.raises(ProofFailed, match="asked for by timers"):
        apply_edits(b"a\n", [edit])


@pytest.mark.parametrize(
    "source",
    [
        b"a = (\n",
        b"a = 1\n\xff\n",
        b"# coding: no-such-codec\na\n",
        b"a = '\x00'\n",
        b"x = " + b"+".join([b"a"] * 2500) + b"\n",
        b"if a: pass\n" + b"elif b: pass\n" * 2500,
        b"x = 1 \\\n",
    ],
)
def test_a_file_that_cannot_be_rewritten_is_a_typed_error(source: bytes) -> None:
    with pytest.raises(ProofFailed, match=r"^the file (nests too deeply|cannot be rewritten: .+)"):
        apply_edits(source, [Edit(Kind.INSERT_BEFORE, Statement(1, 0), "x")])


def test_a_statement_behind_an_empty_continued_line_is_refused() -> None:
    with pytest.raises(ProofFailed, match="'reversible' failed at line 1"):
        apply_edits(b"\\\nx = 1\n", [Edit(Kind.INSERT_BEFORE, Statement(2, 0), "y")])


# What each shape becomes


def test_insertions_around_a_statement_keep_their_order() -> None:
    source = """\
for batch in loader:
    # the loss
    loss = model(batch)  # forward

    # the gradient
    loss.backward()
"""
    check(
        source,
        [
            before(source, "loss = ", "first()"),
            after(source, "loss = ", "third()"),
            before(source, "loss = ", "second()"),
            after(source, "loss = ", "fourth()"),
            after(source, "loss.backward()", "if done:\n    return\nelse:\n    go()"),
        ],
        """\
for batch in loader:
    # the loss
    first()  # [instrument]
    second()  # [instrument]
    loss = model(batch)  # forward
    third()  # [instrument]
    fourth()  # [instrument]

    # the gradient
    loss.backward()
    if done:  # [instrument]
        return  # [instrument]
    else:  # [instrument]
        go()  # [instrument]
""",
    )


def test_lines_that_cannot_carry_a_marker_stand_between_two() -> None:
    source = "if a:\n  b()\n"
    check(
        source,
        [
            after(source, "b()", 'text = """\n  one\n\n"""\nif text:\n    go()'),
            after(source, "b()", "call(\n    1,\n)"),
        ],
        '''\
if a:
  b()
  # [instrument] begin
  text = """
  one

"""
  if text:
    go()
  # [instrument] end
  call(  # [instrument]
      1,  # [instrument]
  )  # [instrument]
'''.replace("    go()", "    go()"),
    )


def test_comments_and_blank_lines_in_inserted_code() -> None:
    source = "a()\nb()\n"
    check(
        source,
        [after(source, "a()", "# why\nc()  # note\n\nd()")],
        """\
a()
# why  # [instrument]
c()  # note  # [instrument]
d()  # [instrument]
b()
""",
    )


def test_disabled_statements_stay_as_comments() -> None:
    source = '''\
def train():
    # lead
    xr.clear_computation_cache()  # why
    log(
        f"""
# no comment
off """
    )
    if val_loader is not None:
        model.eval()

        # inside
        val_loss = validate()
        # tail
    # end
    step()
'''
    check(
        source,
        [
            disable(source, "xr."),
            disable(source, "log("),
            disable(source, "if val_loader", 'val_loss = float("nan")'),
            after(source, "if val_loader"),
        ],
        '''\
def train():
    # lead
    # [instrument] off| xr.clear_computation_cache()  # why
    # [instrument] off| log(
        # [instrument] off| f"""
# [instrument] off| # no comment
# [instrument] off| off """
    # [instrument] off| )
    # [instrument] off| if val_loader is not None:
        # [instrument] off| model.eval()
# [instrument] off| 
        # [instrument] off| # inside
        # [instrument] off| val_loss = validate()
    val_loss = float("nan")  # [instrument]
        # tail
    new()  # [instrument]
    # end
    step()
''',  # noqa: W291
    )


def test_blank_and_comment_lines_below_a_block_are_not_of_it() -> None:
    source = "if a:\n    b()\n\n    # c\n\nd()\n"
    off = "# [instrument] off| if a:\n    # [instrument] off| b()\n"
    check(source, [disable(source, "if a")], f"{off}\n    # c\n\nd()\n")
    moved = "if a:  # [instrument]\n    b()  # [instrument]\n"
    check(source, [move(source, "if a", "d()")], f"{off}\n    # c\n\nd()\n{moved}")


def test_a_block_left_empty_gets_a_pass() -> None:
    source = "for x in y:\n    a()\n    b()\nelse:\n    c()\n"
    check(
        source,
        [disable(source, "a()"), disable(source, "b()"), disable(source, "c()")],
        """\
for x in y:
    # [instrument] off| a()
    # [instrument] off| b()
    pass  # [instrument]
else:
    # [instrument] off| c()
    pass  # [instrument]
""",
    )


def test_moved_statements_take_on_the_new_indentation() -> None:
    source = """\
while True:
    with amp:
        loss = model()
        total += loss.item()
        if bad(loss):
            # why
            raise Nan(
                loss)
    loss.backward()
    sync()
"""
    check(
        source,
        [
            after(source, "sync()", "first()"),
            move(source, "total", "sync()"),
            move(source, "if bad", "sync()"),
            after(source, "sync()", "last()"),
        ],
        """\
while True:
    with amp:
        loss = model()
        # [instrument] off| total += loss.item()
        # [instrument] off| if bad(loss):
            # [instrument] off| # why
            # [instrument] off| raise Nan(
                # [instrument] off| loss)
    loss.backward()
    sync()
    first()  # [instrument]
    total += loss.item()  # [instrument]
    if bad(loss):  # [instrument]
        # why  # [instrument]
        raise Nan(  # [instrument]
            loss)  # [instrument]
    last()  # [instrument]
""",
    )


@pytest.mark.parametrize(
    ("edits", "expected"),
    [
        (("before", "a()"), "new()  # [instrument]\na(); b(); c()  # note\n"),
        (("after", "c()"), "a(); b(); c()  # note\nnew()  # [instrument]\n"),
        (("after", "a()"), "{off}a()  # [instrument]\n{new}b()  # [instrument]\n{c}"),
        (("before", "c()"), "{off}a()  # [instrument]\nb()  # [instrument]\n{new}{c}"),
        (("disable", "a()"), "{off}b()  # [instrument]\n{c}"),
        (("disable", "b()"), "{off}a()  # [instrument]\n{c}"),
        (("disable", "c()"), "{off}a()  # [instrument]\nb()  # [instrument]\n"),
    ],
)
def test_statements_that_share_a_line(edits: tuple[str, str], expected: str) -> None:
    source = "a(); b(); c()  # note\n"
    kind, text = edits
    edit = {"before": before, "after": after, "disable": disable}[kind](source, text)
    parts = {
        "off": "# [instrument] off| a(); b(); c()  # note\n",
        "new": "new()  # [instrument]\n",
        "c": "c()  # [instrument]\n",
    }
    check(source, [edit], expected.format(**parts))


@pytest.mark.parametrize(
    ("header", "rest"),
    [
        ("for x in y", ""),
        ("async for x in y", ""),
        ("while x", "else: pass\n"),
        ("if x", "elif y: d()\n"),
        ("if x", "else: d()\n"),
        ("try", "finally: d()\n"),
        ("with x as y", ""),
        ("async with x", ""),
        ("class A(B)", ""),
        ("def f(x, y=1)", ""),
        ("async def f()", ""),
    ],
)
@pytest.mark.parametrize("start", ["", "else_", "except_", "finally_"])
def test_one_line_bodies_become_blocks(header: str, rest: str, start: str) -> None:
    lead = {
        "": "",
        "else_": "if q:\n  p()\nelse:\n",
        "except_": "try: p()\nexcept E as e:\n",
        "finally_": "try:\n  p()\nfinally:\n",
    }[start]
    indent = "  " if lead else ""
    rest = "".join(f"{indent}{line}" for line in rest.splitlines(keepends=True))
    source = f"{lead}{indent}{header}: step(x); go()\n{rest}"
    unit = "  " if start in ("else_", "finally_", "except_") else "    "
    check(
        source,
        [before(source, "step(x)"), disable(source, "go()")],
        f"{lead}"
        f"{indent}# [instrument] off| {header}: step(x); go()\n"
        f"{indent}{header}:  # [instrument]\n"
        f"{indent}{unit}new()  # [instrument]\n"
        f"{indent}{unit}step(x)  # [instrument]\n"
        f"{rest}",
    )


def test_one_line_parts_of_a_statement() -> None:
    source = "try: a()\nexcept E: b()\nelse: c()\nfinally: d()\n"
    check(
        source,
        [after(source, "b()"), disable(source, "d()"), before(source, "a()")],
        """\
# [instrument] off| try: a()
try:  # [instrument]
    new()  # [instrument]
    a()  # [instrument]
# [instrument] off| except E: b()
except E:  # [instrument]
    b()  # [instrument]
    new()  # [instrument]
else: c()
# [instrument] off| finally: d()
finally:  # [instrument]
    pass  # [instrument]
""",
    )


def test_a_one_line_try_with_a_handler_that_passes() -> None:
    source = "try: a(); b()\nexcept E: pass\n"
    check(
        source,
        [after(source, "a()")],
        "# [instrument] off| try: a(); b()\ntry:  # [instrument]\n    a()  # [instrument]\n"
        "    new()  # [instrument]\n    b()  # [instrument]\nexcept E: pass\n",
    )


def test_one_line_elif_and_match_case() -> None:
    source = "if a: b()\nelif c: d()\nmatch x:\n  case 1: e()\n  case _: f()\n"
    check(
        source,
        [after(source, "d()"), before(source, "f()")],
        """\
if a: b()
# [instrument] off| elif c: d()
elif c:  # [instrument]
  d()  # [instrument]
  new()  # [instrument]
match x:
  case 1: e()
  # [instrument] off| case _: f()
  case _:  # [instrument]
    new()  # [instrument]
    f()  # [instrument]
""",
    )


def test_a_header_over_several_lines() -> None:
    source = "if (a and\n    b): c(); d()  # note\nelse: \\\n  e()\n"
    check(
        source,
        [after(source, "c()"), after(source, "e()")],
        """\
# [instrument] off| if (a and
    # [instrument] off| b): c(); d()  # note
# [instrument] begin
if (a and
    b):
    c()  # [instrument]
    new()  # [instrument]
    d()  # [instrument]
    # [instrument] end
# [instrument] off| else: \\
  # [instrument] off| e()
else:  # [instrument]
    e()  # [instrument]
    new()  # [instrument]
""",
    )


def test_decorated_definitions() -> None:
    source = "# lead\n@one\n@two(\n  3)\n# why\ndef f(): return 1\n@one\nclass A:\n    pass\n"
    check(
        source,
        [before(source, "def f"), before(source, "return 1"), disable(source, "class A")],
        """\
# lead
new()  # [instrument]
@one
@two(
  3)
# why
# [instrument] off| def f(): return 1
def f():  # [instrument]
    new()  # [instrument]
    return 1  # [instrument]
# [instrument] off| @one
# [instrument] off| class A:
    # [instrument] off| pass
""",
    )


def test_an_insertion_lies_behind_the_whole_block() -> None:
    source = """\
for a in b:
    if c:
        d()
        # tail of if
    # tail of for

last()
"""
    check(
        source,
        [after(source, "for a"), after(source, "if c", "inner()"), after(source, "d()", "most()")],
        """\
for a in b:
    if c:
        d()
        most()  # [instrument]
        # tail of if
    inner()  # [instrument]
    # tail of for
new()  # [instrument]

last()
""",
    )


def test_a_survivor_over_several_lines() -> None:
    source = 'a(); b("""\n  # text\n"""); c()\n'
    check(
        source,
        [disable(source, "a()")],
        '''\
# [instrument] off| a(); b("""
  # [instrument] off| # text
# [instrument] off| """); c()
# [instrument] begin
b("""
  # text
""")
# [instrument] end
c()  # [instrument]
''',
    )


BLOCK = "# [instrument] begin\nimport time as _time\n# [instrument] end\n"


@pytest.mark.parametrize(
    ("source", "at", "expected"),
    [
        ("#!/usr/bin/env python\n# coding: utf-8\nx\n", None, "{0}{1}{block}x\n"),
        ('"""Doc."""\nx\n', None, '"""Doc."""\n{block}x\n'),
        ('"""Doc."""\n', None, '"""Doc."""\n{block}'),
        ("from __future__ import annotations\nx\n", None, "{0}{block}x\n"),
        ('"""D."""\nfrom __future__ import annotations\n\nx\n', None, "{0}{1}{block}\nx\n"),
        ("import os\n\n# c\nimport torch\n", "import os", "{0}{block}\n# c\nimport torch\n"),
        ("import os\n", "import os", "{0}{block}"),
        ("import os", "import os", "import os\n" + BLOCK.rstrip("\n")),
        (
            "import os; import torch\n",
            "import os",
            "# [instrument] off| {0}import os  # [instrument]\n{block}"
            "import torch  # [instrument]\n",
        ),
    ],
)
def test_prelude(source: str, at: str | None, expected: str) -> None:
    lines = source.splitlines(keepends=True)
    check(source, [prelude(source, at)], expected.format(*lines, block=BLOCK))


def test_several_preludes_keep_their_order_and_indentation() -> None:
    source = "import a\nif a:\n\tb()\n"
    codes = [f"def _f{n}():\n    return {n}" for n in range(12)]
    expected = "".join(f"# [instrument] begin\n{code}\n# [instrument] end\n" for code in codes)
    edits = [prelude(source, "import a", code) for code in codes]
    check(source, edits, f"import a\n{expected}if a:\n\tb()\n")


def test_a_prelude_of_nothing_is_refused() -> None:
    with pytest.raises(ProofFailed, match="the module has no statement"):
        apply_edits(b"# only\n", [prelude("", None)])


def test_a_prelude_that_does_not_parse_is_refused() -> None:
    for source in (b"a\n", b"if a:\n\tb\n"):
        with pytest.raises(ProofFailed, match="does not parse"):
            apply_edits(source, [prelude(source, None, "def f(:\n    pass")])


# Every odd format


#: What `test_engine_properties.py` does not compose.
FORMATS: dict[str, bytes] = {
    "form feeds": b"\x0cif a:\n\x0c\n \x0c    b()\n    d()\n\x0c\nx\n\x0cy = '''\n\x0cz'''\n",
    "a form feed and no last newline": b"\x0cb()\nd()",
    "bom": b"\xef\xbb\xbfif a:\n    b()\n    d()\n",
    "bom and form feeds": b"\xef\xbb\xbfb()\n\x0c\nd()\n\x0cx\n",
    "bom and coding": b"\xef\xbb\xbf# coding: utf-8\nif a:\n    b(); d()\n",
    "latin-1": b"# coding: latin-1\nif '\xe9':\n    b()  # \xfc\n    d()\n",
    "latin-1 in the second line": (
        b"#!/usr/bin/python\n# vim: fileencoding=latin-1\n'\xe9'\nb()\nd()\n"
    ),
    "shift-jis": "# coding: shift_jis\nx = '表ソ'\nb()\nd('ソ')\n".encode("shift_jis"),
    "continuations": b"if a \\\n   and c:\n    b() \\\n\n    d() + \\\n  1\nx\n",
    "comments between": (
        b"if a:\n  # 1\n    # 2\n    b()\n# 3\n      # 4\n    d()\n    # 5\n  # 6\n# 7\nx\n"
    ),
    "strings": b'if a:\n    b()\n    d("""\n# \n  #[instrument] off| x\n\t""")\n',
    "names in unicode": "größe = 1; b(); d()\n".encode(),
    "docstring only": b'def f():\n    """Doc."""\nb()\nd()\n',
}


@pytest.mark.parametrize("name", FORMATS)
def test_format_is_kept(name: str) -> None:
    source = FORMATS[name]
    for edits in (
        [before(source, "b()"), after(source, "d(")],
        [disable(source, "b()"), after(source, "b()", "x = '''\n\n'''"), before(source, "d(")],
        [move(source, "b()", "d(")],
        [move(source, "d(", "b()")],
        [disable(source, "d("), disable(source, "b()", "y = 1\nz = 2")],
        [prelude(source, None), after(source, "d(")],
    ):
        rewritten(source, *edits)


def test_lines_of_ours_end_like_the_file() -> None:
    for newline in (b"\n", b"\r\n", b"\r"):
        source = newline.join([b"if a:", b"\tb()", b"d()", b""])
        result = rewritten(source, after(source, "b()", "if x:\n    y()"))
        assert result == newline.join(
            [
                b"if a:",
                b"\tb()",
                b"\tif x:  # [instrument]",
                b"\t\ty()  # [instrument]",
                b"d()",
                b"",
            ]
        )


def test_type_parameters() -> None:
    source = "def f[T](x: T) -> T: return x\ntype A[T] = list[T]\n"
    try:
        ast.parse(source)
    except SyntaxError:
        pytest.skip("this Python has no type parameters")
    rewritten(source, before(source, "return x"), after(source, "type A"))


def test_inserted_names_that_the_encoding_lacks() -> None:
    source = b"# coding: latin-1\na()\n"
    with pytest.raises(ProofFailed):
        apply_edits(source, [after(source, "a()", "x = '\u8868'")])


def test_a_disabled_statement_must_not_declare_an_encoding() -> None:
    source = b"find(r'coding: latin-1')\na()\n"
    with pytest.raises(ProofFailed, match="would declare an encoding: iso-8859-1"):
        apply_edits(source, [disable(source, "find(")])
    rewritten(source, disable(source, "a()"))


# The marker


def test_strip_leaves_other_files_alone() -> None:
    source = Path(__file__).read_bytes().replace(MARKER.encode(), b"# [other]")
    assert strip(source) == source


def test_strip_of_a_damaged_file_loses_no_line_of_the_script() -> None:
    assert strip(b"a()\n# [instrument] end\nb()\n") == b"a()\nb()\n"
