"""docs/declines.md, made from the declines of `locate/rules/`."""

from __future__ import annotations

import ast
import inspect
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

from instrumentor.locate.rules.decline import Decline
from instrumentor.locate.rules.declines import DECLINES, TOPICS

ROOT = Path(__file__).resolve().parents[1]
_WORDS = ("kind", "message", "remedy")
_RULES = "instrumentor.locate.rules."
HEAD = """\
# Declines

Why a script is declined, under the kind that `--json` gives. What stands in braces is filled in.
Each has a script that shows it, which a test runs. The page is made from the classes in
`instrumentor/locate/rules/` (`pytest tests/locate/rules/test_declines.py --update-goldens`).
"""
_BLOCK = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)
_NAMED = re.compile(r"# ([\w/.]+\.(?:py|yaml))\n")


def text() -> str:
    """The page: declines by topic."""
    parts = [HEAD]
    for topic, declines in TOPICS.items():
        parts += [f"## {topic}\n", *map(_section, declines)]
    return "\n".join(parts)


def _section(decline: type[Decline]) -> str:
    words = decline.__module__.replace(".", "/") + ".py"
    places = deciding(decline)
    apart = "" if words in places else f"; its words: `{words}`"
    flags = "`--region` may time lines of it. " if decline.timeable else ""
    flags += "" if decline.observable else "Running it would not tell more. "
    return (
        f"### {decline.kind}: {decline.__name__}\n\n{documentation(decline)}\n\n"
        f"- says: {decline.message}\n- remedy: {decline.remedy}\n"
        f"- decided in: {', '.join(f'`{each}`' for each in places)}{apart}. {flags}".rstrip()
        + "\n"
    )


def deciding(decline: type[Decline]) -> list[str]:
    """The modules that decline a script with it."""
    return _deciding()[decline.__module__, decline.__name__]


@cache
def _deciding() -> dict[tuple[str, str], list[str]]:
    """They by the module and the name of what is said."""
    found = defaultdict[tuple[str, str], list[str]](list)
    for path in sorted((ROOT / "instrumentor").rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if name == "instrumentor/locate/rules/declines.py":
            continue  # which lists them
        tree = ast.parse(path.read_text(encoding="utf-8"))
        here = name.removesuffix(".py").replace("/", ".")
        nodes = [*ast.walk(tree)]
        said = {each.name: here for each in tree.body if isinstance(each, ast.ClassDef)}
        for each in nodes:
            if isinstance(each, ast.ImportFrom) and f"{each.module}.".startswith(_RULES):
                said |= _named_by(each)
        # A base, or `NoLoop.message` of which another is made, decides nothing.
        idle = {id(base) for each in nodes if isinstance(each, ast.ClassDef) for base in each.bases}
        idle |= {id(n.value) for n in nodes if isinstance(n, ast.Attribute) and n.attr in _WORDS}
        used = {_name(each) for each in nodes if id(each) not in idle}
        for decline in used & said.keys():
            found[said[decline], decline].append(name)
    return found


def _named_by(node: ast.ImportFrom) -> dict[str, str]:
    """The declines that an import makes known: by name, or in a module of which one is asked."""
    if f"{node.module}." != _RULES:
        return {each.name: str(node.module) for each in node.names}
    modules = {f"{_RULES}{each.name}" for each in node.names}
    return {each.__name__: each.__module__ for each in DECLINES if each.__module__ in modules}


def _name(node: ast.AST) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return node.id if isinstance(node, ast.Name) else ""


def documentation(decline: type[Decline]) -> str:
    """The docstring of a decline: why, and its example."""
    return inspect.cleandoc(decline.__doc__ or "")


def example(decline: type[Decline]) -> tuple[dict[str, str], list[str]]:
    """The files of a decline's example by name, and the commands that show it."""
    files, commands = dict[str, str](), list[str]()
    for language, block in _BLOCK.findall(documentation(decline)):
        if language == "console":
            commands += [line.removeprefix("$ ") for line in block.splitlines()]
        else:
            named = _NAMED.match(block)
            files[named[1] if named else "train.py"] = block
    return files, commands or ["instrument explain train.py"]
