"""The verbs and their options: one Typer application, thin over the library."""

from __future__ import annotations

import inspect
import io
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType, NoneType
from typing import Annotated, Any, get_args, get_origin

import typer

from instrumentor.cli import origins
from instrumentor.cli.config import Defaults, find_defaults
from instrumentor.cli.signature import Command, Declared, untyped
from instrumentor.cli.verbs import VERBS
from instrumentor.shared import about, console
from instrumentor.shared.errors import EXIT_CODES, UsageError

_EPILOG = (
    "Start with: instrument --dry-run train.py, then instrument run train.py. Exit codes: "
    + ", ".join(f"{code} {re.split('[:;(]', text)[0].strip()}" for code, text in EXIT_CODES.items())
    + "."
)
# What is wrong with a configuration must not keep them from their work, which it says nothing of.
_UNCONFIGURED = (["restore"], ["skill"])
# What Typer does not check by itself: it would fail on these, or take the wrong value.
_CHECKED: dict[Any, tuple[type, str]] = {
    bool: (bool, "true or false"),
    list: (list, "a list"),
    str: (str, "a text"),
    Path: (str, "a text"),
}


class _Group(typer.core.TyperGroup):
    """Takes the defaults of pyproject.toml before any option is read."""

    def get_help_option(self, ctx: Any) -> Any:
        return untyped(super().get_help_option(ctx))

    def get_params(self, ctx: Any) -> Any:
        found = super().get_params(ctx)
        for each in found:
            if each.name in ("install_completion", "show_completion"):
                untyped(each)
        return found

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args[:1] not in _UNCONFIGURED and not {"-h", "--help", "--version"}.intersection(
            args[:1]
        ):
            ctx.meta[origins.FILE], ctx.default_map = _defaults()
        return super().parse_args(ctx, args)


def application(verbs: Iterable[str] = VERBS, *, outline: bool = False) -> typer.Typer:
    """The command line with these verbs: to build them all takes 50 ms.

    Args:
        outline: for their names and what they do; without their options.
    """
    app = typer.Typer(
        name="instrument",
        help="Measure one training step with one command; your files are never modified.",
        epilog=_EPILOG,
        cls=_Group,
        add_completion=True,
        no_args_is_help=True,
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(invoke_without_command=True)(_start)
    for name in verbs:
        example, settings = VERBS[name]
        module = _module(name)
        if name == "kernel":
            app.add_typer(module.app, name=name)
            continue
        function = _function(name)
        app.command(
            name,
            cls=getattr(module, "Command", Command),
            context_settings=settings,
            help=inspect.getdoc(function),
            epilog=f"Example: {example}",
        )(_nothing if outline else function)
    return app


def _nothing() -> None:
    """Stands for a verb that is only listed."""


def _module(verb: str) -> ModuleType:
    return import_module(f"instrumentor.cli.verbs.{verb.replace('-', '_')}")


def _function(verb: str) -> Any:
    return getattr(_module(verb), verb.replace("-", "_"))


def _show_version(value: bool) -> None:
    if value:
        console.out(f"instrument {about.version()}")
        raise typer.Exit


def _start(
    dry_run: Annotated[
        Path | None,
        typer.Option(
            "--dry-run",
            metavar="SCRIPT ARGS",
            help="Print the diff that a run would apply; write nothing (instrument preview).",
        ),
    ] = None,
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_show_version,
            is_eager=True,
            metavar="",
            help="Print the version.",
        ),
    ] = False,
) -> None:
    # `--dry-run SCRIPT` has become the verb preview before: this is its place in the help.
    pass


def _defaults() -> tuple[Defaults, dict[str, Any]]:
    """`[tool.instrument]`, and the defaults that it has for each verb."""
    found = find_defaults(Path.cwd())
    table, path, ignored = found
    for text in ignored:
        console.warn(text)
    if not table:
        return found, {}
    verbs = {name: _function(name).declared for name in VERBS if name != "kernel"}
    known = {name: _by_key(declared.values()) for name, declared in verbs.items()}
    # One file serves all verbs: a key is an error only when no verb has it, and each verb is given
    # the keys that it has.
    every = {key: each for options in known.values() for key, each in options.items()}
    for key, value in table.items():
        if key not in every:
            raise UsageError(
                f"{path}: [tool.instrument] has no option {key!r}", "See instrument run --help."
            )
        where = f"{path}: [tool.instrument]: {key}"
        _check(where, every[key].type, value)
        if path is not None and key in _WRITTEN:
            _refuse_outside(where, value, path.parent)

    def given(options: Mapping[str, Declared]) -> dict[str, Any]:
        return {options[key].key: value for key, value in table.items() if key in options}

    return found, {name: given(options) for name, options in known.items()}


#: Options that name a place where a run writes.
_WRITTEN = ("output", "history")


def _refuse_outside(where: str, value: str, project: Path) -> None:
    """A file that comes with a project does not choose a place outside of it to be written to."""
    if not (Path.cwd() / value).resolve().is_relative_to(project.resolve()):
        raise UsageError(
            f"{where}: {value} lies outside of the project", "Give it on the command line."
        )


def _by_key(options: Iterable[Declared]) -> dict[str, Declared]:
    """The options that may stand in a file."""
    return {key: each for each in options if each.option.file for key in each.keys}


def _check(where: str, kind: Any, value: object) -> None:
    plain = next(each for each in (*get_args(kind), kind) if each is not NoneType)
    wanted, words = _CHECKED.get(get_origin(plain) or plain, (object, ""))
    if not isinstance(value, wanted):
        raise UsageError(f"{where} must be {words}, not {value!r}")


def _enough(argv: Sequence[str]) -> typer.Typer:
    """The application, as much of it as a command line takes."""
    # Set by the shell's completion script, which may be at any verb.
    if "_INSTRUMENT_COMPLETE" in os.environ:
        return application()
    if not argv or argv[0] in ("-h", "--help"):
        return application(outline=True)
    # A key in a file is held against the options of every verb.
    if list(argv[:1]) not in _UNCONFIGURED and find_defaults(Path.cwd()).table:
        return application()
    if argv[0] in VERBS:
        return application([argv[0]])
    return application([word for word in argv if word in VERBS])


def _plain_help() -> None:
    """Print help without bold where no colour is wanted."""
    if not console.colored(sys.stdout):
        from typer import rich_utils

        # Rich drops colours for NO_COLOR, but keeps bold; and Typer takes GITHUB_ACTIONS or
        # FORCE_COLOR for a terminal.
        rich_utils.FORCE_TERMINAL = False


def invoke(argv: Sequence[str]) -> int:
    """Run one command line; returns its exit code.

    Raises:
        InstrumentError: what the library raised.
        KeyboardInterrupt: the user interrupted outside of a run.
        BrokenPipeError: nobody reads any more.
    """
    # Without a verb the help is shown unasked.
    if argv[-1:] in ([], ["kernel"]) or {"-h", "--help"}.intersection(argv):
        _plain_help()
    try:
        code = _enough(argv)(list(argv), standalone_mode=False, prog_name="instrument")
    except typer.Exit as stop:
        return stop.exit_code
    except typer.Abort as abort:  # a question that Ctrl-C or the end of the input left open
        raise KeyboardInterrupt from abort
    except SystemExit as stop:
        # Typer ends with 1 when the reader of a pipe has gone, which is no failure.
        if isinstance(stop.__context__, BrokenPipeError):
            raise stop.__context__ from None
        raise
    except Exception as error:
        # Typer's own usage errors know how to show themselves and carry code 2. Since 0.26 they are
        # of a Click inside of Typer: the package's classes would not catch them.
        show = getattr(error, "show", None)
        if show is None:
            raise
        text = io.StringIO()
        show(file=text)
        console.say(origins.plainly(text.getvalue().rstrip("\n")))
        return int(getattr(error, "exit_code", 2))
    return code if isinstance(code, int) else 0
