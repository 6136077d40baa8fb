"""What others wrote is searched in a time that grows with its length, not with its square.

`Enqueue .+ cannot` looks to the end of the line from each `Enqueue `: a line of 300 KB takes
minutes. So a repeat without a limit takes no text in which its own expression begins anew, unless
nothing that can fail comes after it. Nor do two such repeats take the same text one behind the
other, as in `name\\s*(?:x)?\\s*$`, wherever the expression is held against a text: which of them
takes how much of a run of blanks is tried in every way.
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
#: Functions of `re` that take an expression's text, of which none is seen here unless it is plain.
_TAKES = (*SEARCHING, "match", "fullmatch")
MOST = 5000  # times that a repeat with a limit may take
#: Expressions of which that is not true, and why they do no harm.
ALLOWED = {
    "instrumentor_analysis.clock.host_layers._METAL": "matched at one place",
    "instrumentor_analysis.clock.modules._NUMBER": "begins behind a dot alone",
    "instrumentor.rewrite.engine._LINE": "every line but the last has an end",
    "instrumentor.rewrite.line_format._LINE_FORM": "whatever follows is taken, to the end",
    "instrumentor.run.any_command._SHELL": "every quote but the last has an end",
}
#: Where the text of an expression is made, and of what.
MADE = {
    "instrumentor/cli/origins": "an option's own spellings",
    "instrumentor/locate/experiment_yaml": "words of ours",
    "instrumentor/locate/meaning/spelling": "words of ours, held against one name",
    "instrumentor/shared/console": "the folder one stands in, with a character behind it",
    "instrumentor/tune/yaml_override": "words of ours",
    "instrumentor_analysis/kernels/text": "a number behind a number",
    "instrumentor_analysis/load/attributes": "a key of ours, and what has no such character in it",
    "instrumentor_analysis/load/ops_csv": "one character",
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
    used = {*re.findall(rf"(\w+)\.(?:{'|'.join(SEARCHING)})\b", "\n".join(every.values()))}
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


#: A character of each kind that an expression can tell from the others.
_CHARACTERS = [*map(chr, range(9, 14)), *map(chr, range(27, 127)), "\xa0", "\xe9", "\u4e2d"]
#: What a repeat takes, and what has to stand behind it up to where one is.
_Open = tuple[frozenset[str], tuple[frozenset[str], ...]]


def twofold(expression: re.Pattern[Any]) -> list[str]:
    """Characters of which two repeats of an expression can each take any part of a run."""
    pattern, flags = expression.pattern, expression.flags & (re.VERBOSE | re.IGNORECASE)
    found: list[str] = []
    text = pattern.decode() if isinstance(pattern, bytes) else pattern
    _follow(list(parser.parse(text, flags)), [], found, ends=True)
    return found


def _follow(items: list[Any], before: list[_Open], found: list[str], *, ends: bool) -> list[_Open]:
    """Go through a sequence; which repeats may have ended anywhere before its end."""
    for at, item in enumerate(items):
        kind, value = item
        last = ends and not any(_may_fail(each) for each in items[at + 1 :])
        if kind is c.SUBPATTERN:
            before = _follow(list(value[3]), before, found, ends=last)
        elif kind is c.BRANCH:
            each = [_follow(list(one), before, found, ends=last) for one in value[1]]
            before = [one for some in each for one in some]
        elif kind in (c.MAX_REPEAT, c.MIN_REPEAT):
            least, most, body = value
            taken, endless = _characters(list(body)), most is c.MAXREPEAT or most > MOST
            if endless and len(body) == 1 and body[0][0] not in (c.SUBPATTERN, c.BRANCH):
                found += (
                    "".join(sorted(first & taken))
                    for first, between in before
                    if not last and first & taken and all(each & taken for each in between)
                )
                inner: list[_Open] = [(taken, ())]
            else:
                inner = _follow(list(body), before, found, ends=last and not endless)
            before = [*([] if least else before), *_behind(before, taken), *inner]
        elif kind not in (c.AT, c.ASSERT, c.ASSERT_NOT):
            before = _behind(before, _characters([item]))
    return list(dict.fromkeys(before))


def _behind(before: list[_Open], taken: frozenset[str]) -> list[_Open]:
    """Of the repeats those that could as well have taken what has to stand here."""
    return [(first, (*between, taken)) for first, between in before if first & taken]


def _characters(items: list[Any]) -> frozenset[str]:
    """What may stand anywhere in a sequence."""
    found: set[str] = set()
    for kind, value in items:
        if kind in (c.IN, c.LITERAL, c.NOT_LITERAL, c.ANY):
            one = re.compile(_text_of((kind, value)))
            found.update(each for each in _CHARACTERS if one.fullmatch(each))
        elif kind is c.SUBPATTERN:
            found |= _characters(list(value[3]))
        elif kind is c.BRANCH:
            found = found.union(*(_characters(list(one)) for one in value[1]))
        elif kind in (c.MAX_REPEAT, c.MIN_REPEAT):
            found |= _characters(list(value[2]))
    return frozenset(found)


def every() -> Iterator[tuple[str, Any]]:
    """Where an expression stands, and it, however it is held against a text."""
    for module, text in sources():
        for node in ast.walk(ast.parse(text)):
            match node:
                case ast.Call(
                    func=ast.Attribute(value=ast.Name(id="re"), attr=attribute),
                    args=[ast.Constant(value=pattern), *_],
                ) if attribute in _TAKES:
                    yield module, re.compile(pattern)
        if "re.compile(" in text:
            for name, value in vars(importlib.import_module(module)).items():
                yield from ((f"{module}.{name}", each) for each in patterns_in(value))
    yield from ((f"failures.yaml: {each.name}", each.expression) for each in failures())


def test_no_two_repeats_share_a_run_of_characters() -> None:
    found = {f"{where}: {each.pattern!r}: {twofold(each)}" for where, each in every()}
    assert {each for each in found if not each.endswith(": []")} == set()


def test_an_expression_whose_text_is_made_where_it_is_used_is_named() -> None:
    """It is seen by no test here."""
    made = {
        module.replace(".", "/")
        for module, text in sources()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and (node.func.value.id, node.func.attr in _TAKES) == ("re", True)
        and not isinstance(node.args[0], ast.Constant)
    }
    assert made == {*MADE}


@pytest.mark.parametrize(
    "pattern",
    [r"a\s*(?:\[\w+\])?\s*\(", r"-*\s*-*$", r"(\S.*?)\s+(\d+)$", r"\s*([\d,]*)\s*$", r"a.*?b?\w+!"],
)  # fmt: skip
def test_what_two_repeats_take_is_seen(pattern: str) -> None:
    assert twofold(re.compile(pattern))


@pytest.mark.parametrize(
    "pattern",
    [r"a\s*(?:\[\w+\]\s*)?\(", r"(\S+(?:\s+\S+)*?)\s+(\d+)$", r'File "(.*)", line (\d+)$',
     r"(.*)@(\w+)$", r"\d+(\.\d+)*$", r"\w+\s*.*"],
)  # fmt: skip
def test_what_one_repeat_takes_is_not(pattern: str) -> None:
    assert not twofold(re.compile(pattern))


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
