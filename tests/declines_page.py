"""docs/declines.md, made from the declines of `locate/rules/`."""

from __future__ import annotations

import inspect
import re

from instrumentor.locate.rules.decline import Decline
from instrumentor.locate.rules.declines import TOPICS

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
    module = decline.__module__.rpartition(".")[2]
    flags = "`--region` may time lines of it. " if decline.timeable else ""
    flags += "" if decline.observable else "Running it would not tell more. "
    return (
        f"### {decline.kind}: {decline.__name__}\n\n{documentation(decline)}\n\n"
        f"- says: {decline.message}\n- remedy: {decline.remedy}\n"
        f"- made in: `instrumentor/locate/rules/{module}.py`. {flags}".rstrip()
        + "\n"
    )


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
