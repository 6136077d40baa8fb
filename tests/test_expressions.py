"""What others wrote is searched in a time that grows with its length, not with its square.

`Enqueue .+ cannot` looks to the end of the line from each `Enqueue `: a line of 300 KB takes
minutes. So a repeat without a limit takes no text in which its own expression begins anew, unless
nothing that can fail comes after it.
"""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from typing import Any

import pytest

from instrumentor.run.known_failures import failures
from tests.conftest import ROOT

try:
    from re import _constants as c
    from re import _parser as parser  # type: ignore[attr-defined]
except ImportError:  # Python 3.10
    import sre_constants as c
    import sre_parse as parser

PACKAGES = (ROOT / "instrumentor", ROOT / "analysis" / "instrumentor_analysis")
SEARCHING = ("search", "finditer", "findall", "sub", "subn", "split")
_INLINE = re.compile(rf"\bre\.(?:{'|'.join(SEARCHING)})\(")
MOST = 5000  # times that a repeat with a limit may take
#: Expressions of which that is not true, and why they do no harm.
ALLOWED = {
    "instrumentor_analysis.clock.host_layers._METAL": "matched at one place",
    "instrumentor_analysis.clock.modules._NUMBER": "begins behind a dot alone",
    "instrumentor.rewrite.engine._LINE": "every line but the last has an end",
    "instrumentor.rewrite.line_format._LINE_FORM": "whatever follows is taken, to the end",
    "instrumentor.run.any_command._SHELL": "every quote but the last has an end",
}


def sources() -> Iterator[tuple[str, str]]:
    """Modules of the product by name, with their text."""
    for package in PACKAGES:
        for path in sorted(package.rglob("*.py")):
            name = ".".join(path.relative_to(package.parent).with_suffix("").parts)
            yield name.removesuffix(".__init__"), path.read_text("utf-8")


def patterns_in(value: Any) -> Iterator[Any]:
    """Expressions that a value is, or holds."""
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, dict):
        yield from patterns_in(list(value.values()))
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from patterns_in(each)


def searched() -> Iterator[tuple[str, Any]]:
    """Where an expression stands that is looked for at every place of a text, and it."""
    every = dict(sources())
    used = {*re.findall(rf"(\w+)\.(?:{'|'.join(SEARCHING)})\(", "\n".join(every.values()))}
    for module, text in every.items():
        inline = _INLINE.search(text)
        for node in ast.walk(ast.parse(text)) if inline else ():
            match node:
                case ast.Call(
                    func=ast.Attribute(value=ast.Name(id="re"), attr=attribute),
                    args=[ast.Constant(value=pattern), *_],
                ) if attribute in SEARCHING:
                    yield module, re.compile(pattern)
        if "re.compile(" in text:
            for name, value in vars(importlib.import_module(module)).items():
                if name in used or not isinstance(value, re.Pattern):
                    yield from ((f"{module}.{name}", each) for each in patterns_in(value))
    yield from ((f"failures.yaml: {each.name}", each.expression) for each in failures())


def quadratic(expression: re.Pattern[Any]) -> list[str]:
    """The beginnings that a repeat of an expression takes again."""
    pattern = expression.pattern
    items = list(parser.parse(pattern.decode() if isinstance(pattern, bytes) else pattern))
    found: list[str] = []
    anchored = items[0] in ((c.AT, c.AT_BEGINNING), (c.AT, c.AT_BEGINNING_STRING))
    if not anchored or expression.flags & re.MULTILINE:
        _walk(items, "", found, ends=True)
    return found


def _walk(items: list[Any], before: str, found: list[str], *, ends: bool) -> str:
    """Go through a sequence; what certainly stands before its end."""
    for at, (kind, value) in enumerate(items):
        rest = items[at + 1 :]
        last = ends and not any(_may_fail(each) for each in rest)
        if kind is c.LITERAL:
            before += chr(value)
        elif kind is c.AT and value is c.AT_BEGINNING:
            before += "\n"
        elif kind is c.SUBPATTERN:
            before = _walk(list(value[3]), before, found, ends=last)
        elif kind is c.BRANCH:
            each = [set(_walk(list(one), before, found, ends=last)) for one in value[1]]
            before += "".join(set.intersection(*each))
        elif kind in (c.MAX_REPEAT, c.MIN_REPEAT):
            _, most, body = value
            endless = most is c.MAXREPEAT or most > MOST
            if endless and not last and not any(_outside(each, body) for each in before):
                found.append(before)
            _walk(list(body), before, found, ends=last and not endless)
    return before


def _may_fail(item: Any) -> bool:
    kind, value = item
    return not (kind in (c.MAX_REPEAT, c.MIN_REPEAT) and value[0] == 0)


def _outside(character: str, body: Any) -> bool:
    """Whether a repeat's body takes no such character."""
    single = all(kind in (c.IN, c.LITERAL, c.NOT_LITERAL, c.ANY) for kind, _ in body)
    if not single or len(body) != 1:
        return False  # as far as is looked
    return re.fullmatch(_text_of(body[0]), character) is None


def _text_of(item: Any) -> str:
    kind, value = item
    if kind is c.ANY:
        return "."
    if kind in (c.LITERAL, c.NOT_LITERAL):
        return f"[{'^' if kind is c.NOT_LITERAL else ''}{re.escape(chr(value))}]"
    return "".join(("[", *map(_part, value), "]"))


def _part(item: Any) -> str:
    kind, value = item
    if kind is c.NEGATE:
        return "^"
    if kind is c.LITERAL:
        return re.escape(chr(value))
    if kind is c.RANGE:
        return f"{re.escape(chr(value[0]))}-{re.escape(chr(value[1]))}"
    names = {"DIGIT": "d", "SPACE": "s", "WORD": "w"}
    word = str(value).removeprefix("CATEGORY_")
    letter = names[word.removeprefix("NOT_")]
    return "\\" + (letter.upper() if word.startswith("NOT_") else letter)


def test_no_search_takes_the_square_of_a_text() -> None:
    wrong = {
        f"{where}: {each.pattern!r}"
        for where, each in searched()
        if quadratic(each) and where not in ALLOWED
    }
    assert wrong == set()


@pytest.mark.parametrize(
    "pattern",
    [r"Enqueue (.+?) cannot", r"lib[\w.+-]+\.so", r"(TT_\w+) is", r"^\s*import", r"(Op|Ops)+$",
     r'"((?:[^"\\]|\\.)+)" *:', r"\s*(?=[A-Z])"],
)  # fmt: skip
def test_the_square_is_seen(pattern: str) -> None:
    assert quadratic(re.compile(pattern, re.MULTILINE))


@pytest.mark.parametrize(
    "pattern",
    [r"Enqueue (.{1,300}?) cannot", r"Board \S+ has", r"lock '([^']+)' is", r"does not know (.+)",
     r"^[ \t]*import", r"\d+", r"found (\d+) x"],
)  # fmt: skip
def test_what_takes_no_square_is_not(pattern: str) -> None:
    assert not quadratic(re.compile(pattern, re.MULTILINE))
