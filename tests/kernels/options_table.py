"""The README's table of options of `instrument kernel`, made from the command line itself."""

from __future__ import annotations

from typing import Any

from tests.options_table import HEAD, _row, commands, options_of

BEGIN, END = "<!-- kernel options -->\n", "<!-- end of kernel options -->\n"


def verbs() -> dict[str, Any]:
    """The verbs of `instrument kernel`."""
    return dict(commands()["kernel"].commands)


def put(readme: str) -> str:
    """The README with the table as it should be."""
    rows: dict[tuple[str, str], tuple[Any, list[str]]] = {}
    for verb, command in verbs().items():
        for name, param in options_of(command).items():
            rows.setdefault((name, param.help), (param, []))[1].append(verb)
    table = HEAD + "".join(_row(n, t, param, of) for (n, t), (param, of) in rows.items())
    before, _, rest = readme.partition(BEGIN)
    return before + BEGIN + table + END + rest.partition(END)[2]
