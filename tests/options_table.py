"""The table of docs/options.md, made from the command line itself."""

from __future__ import annotations

from typing import Any

import typer

from instrumentor.cli.app import application

HEAD = "| option | of | default | variable | what it does |\n|---|---|---|---|---|\n"
BEGIN, END = "<!-- options -->\n", "<!-- end of options -->\n"


def commands() -> dict[str, Any]:
    """The verbs by name, those of a group as `group verb`."""
    return _below(typer.main.get_command(application()), "")


def _below(group: Any, prefix: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, command in group.commands.items():
        inner = hasattr(command, "commands")
        found |= _below(command, f"{name} ") if inner else {prefix + name: command}
    return found


def options_of(command: Any) -> dict[str, Any]:
    """The options of a verb by their long name, help aside."""
    params = [p for p in command.params if p.param_type_name == "option" and p.name != "help"]
    return {max(p.opts, key=len): p for p in params}


def table() -> str:
    """One row for each option, or for each meaning of it where verbs differ."""
    rows: dict[tuple[str, str], tuple[Any, list[str]]] = {}
    for verb, command in commands().items():
        for name, param in options_of(command).items():
            rows.setdefault((name, param.help), (param, []))[1].append(verb)
    lines = [_row(name, text, param, verbs) for (name, text), (param, verbs) in rows.items()]
    return HEAD + "".join(lines)


def _row(name: str, text: str, param: Any, verbs: list[str]) -> str:
    value = "" if param.is_flag else f" {param.metavar or name.strip('-').upper()}"
    short = "".join(f", `{o}`" for o in param.opts if o != name)
    plain = param.default is not None and param.default is not False and param.default != ""
    default = f"`{param.default}`" if plain and not callable(param.default) else ""
    variable = f"`{param.envvar}`" if param.envvar else ""
    cells = (f"`{name}{value}`{short}", ", ".join(verbs), default, variable, text)
    return "| " + " | ".join(c.replace("|", "\\|").replace("\n", " ") for c in cells) + " |\n"


def put(page: str) -> str:
    """The page with the table as it should be."""
    before, _, rest = page.partition(BEGIN)
    return before + BEGIN + table() + END + rest.partition(END)[2]
