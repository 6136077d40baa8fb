"""Each sentence of docs/safety.md is held to by tests, which tests/safety.yaml names.

A sentence that is new fails until a test shows it, and so does a test that was renamed.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import yaml

from tests.conftest import ROOT

TABLE = ROOT / "tests" / "safety.yaml"
_BLOCKS = re.compile(r"\n\s*\n|\n(?=- |\d\. |\|)")
_ENDS = re.compile(r"(?<=[a-z0-9)`][.:])\s+(?=[A-Z`(-])|(?<=\.\))\s+(?=[A-Z])")


def sentences() -> Iterator[str]:
    """Those of the page; of a row of its table the first cell."""
    text = (ROOT / "docs" / "safety.md").read_text(encoding="utf-8")
    for block in (" ".join(each.split()) for each in _BLOCKS.split(text)):
        if block.startswith("|"):
            cell = block.split("|")[1].strip()
            if not cell.startswith("---") and cell != "somebody else owns":
                yield f"| {cell}"
        elif block and not block.startswith("#"):
            plain = re.sub(r"^(- |\d\. )", "", block).replace("**", "")
            yield from (each.strip("()") for each in _ENDS.split(plain))


@cache
def names_in(file: str) -> frozenset[str]:
    """Names of the functions of a file; none where there is no such file."""
    path = ROOT / file
    nodes = ast.walk(ast.parse(path.read_bytes())) if path.is_file() else ()
    return frozenset(node.name for node in nodes if isinstance(node, ast.FunctionDef))


def unshown(page: list[str], shown: dict[str, list[str]]) -> Iterator[str]:
    """What is wrong between a page and the tests that are named for it."""
    for sentence in page:
        found = [each for each in shown if sentence.startswith(each)]
        if len(found) != 1:
            yield f"{len(found)} entries for: {sentence}"
    for each in shown:
        if not any(sentence.startswith(each) for sentence in page):
            yield f"no sentence: {each}"
    for test in (test for tests in shown.values() for test in tests):
        file, _, name = test.partition("::")
        if not name.startswith("test_") or name not in names_in(file):
            yield f"no test: {test}"


def test_each_sentence_is_shown_by_tests_that_exist() -> None:
    shown = yaml.safe_load(TABLE.read_text(encoding="utf-8"))
    assert list(unshown(list(sentences()), shown)) == []
    assert sum(map(bool, shown.values())) > 60


@pytest.mark.parametrize(
    ("page", "shown", "wrong"),
    [
        (["It holds."], {}, "0 entries for: It holds."),
        (["It holds."], {"It": [], "It holds": []}, "2 entries for: It holds."),
        ([], {"Gone": []}, "no sentence: Gone"),
        (["It holds."], {"It": ["tests/test_safety.py::test_gone"]},
         "no test: tests/test_safety.py::test_gone"),
        (["It holds."], {"It": ["tests/test_gone.py::test_x"]},
         "no test: tests/test_gone.py::test_x"),
    ],
)  # fmt: skip
def test_what_is_not_shown_is_found(
    page: list[str], shown: dict[str, list[str]], wrong: str
) -> None:
    assert list(unshown(page, shown)) == [wrong]


#: Modules through which a process speaks to another machine.
NETWORK = re.compile(
    r"^\s*(?:import|from) (socket|ssl|urllib\.request|http|requests|httpx|aiohttp|ftplib|smtplib|"
    r"asyncio|socketserver|xmlrpc|telnetlib|urllib3)\b",
    re.MULTILINE,
)


def speakers() -> Iterator[tuple[Path, str, str]]:
    """Files that import one of them, with their text."""
    for package in ("instrumentor", "analysis/instrumentor_analysis"):
        for path in sorted((ROOT / package).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            yield from ((path, name, text) for name in NETWORK.findall(text))


def test_nothing_of_ours_speaks_to_another_machine() -> None:
    """Sockets are pairs of the tool's own processes, and a look whether a port is free."""
    for path, name, text in speakers():
        assert name == "socket", path
        assert not re.search(r"\.connect(_ex)?\(|create_connection", text), path
