"""The verbs and their options: one Typer application, thin over the library."""

from __future__ import annotations

import copy
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from instrumentor import about, console
from instrumentor.commands import (
    apply,
    common,
    compare,
    diagnose,
    doctor,
    explain,
    following,
    history,
    kernel,
    panels,
    profile,
    report,
    restore,
    run,
    skill,
    tune,
)
from instrumentor.errors import EXIT_CODES, UsageError

_OF_THE_BARE_COMMAND = ("dry_run", "version", "install_completion", "show_completion")
_EPILOG = (
    "Start with: instrument --dry-run train.py, then instrument run train.py. Exit codes: "
    + "; ".join(f"{code} {text.split(':')[0]}" for code, text in EXIT_CODES.items())
    + "."
)
# Options that act once: no default of theirs may stand in a file.
_ONE_TIME = frozenset(
    {"help", "version", "force", "summary", "fix"}
    # Of run, doctor and profile: what ends processes and resets boards is asked for by the user.
    | {"yes", "reset"}
    # Of compare and history.
    | {"html", "markdown", "batch_size", "baseline", "run", "plot"}
    # Of tune.
    | {"resume"}
    # Of report.
    | {"csv", "summary_file", "plots", "perfetto", "visualizer", "flops", "ops", "step"}
    | {"start_signpost", "end_signpost", "signpost", "ignore_signposts", "id_range"}
)
# What is wrong with a configuration must not keep them from their work, which it says nothing of.
_UNCONFIGURED = (["restore"], ["skill"])
_WORDS = {bool: "true or false", list: "a list", str: "a text"}


class _Group(typer.core.TyperGroup):
    """Takes the defaults of pyproject.toml before any option is read."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for option in self.params:
            if isinstance(option, typer.core.TyperOption):
                option.show_envvar = False
                # what --dry-run SCRIPT takes besides stands in the help of explain and run
                option.hidden = option.name not in _OF_THE_BARE_COMMAND

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args[:1] in _UNCONFIGURED:
            for option in self.params:
                option.envvar = None
        elif not {"-h", "--help", "--version"}.intersection(args[:1]):
            ctx.default_map = _defaults(self)
        return super().parse_args(ctx, args)


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
# What no option of ours is goes to the script: `explain train.py --config x.yaml --json`.
_OURS_AND_THEIRS = {"allow_interspersed_args": True, "ignore_unknown_options": True}
_SCRIPT_LAST = {"allow_interspersed_args": False, "ignore_unknown_options": False}

app.command("run", cls=panels.Command, context_settings=_SCRIPT_LAST)(run.run)
app.command("explain", cls=panels.Command, context_settings=_OURS_AND_THEIRS)(explain.explain)
app.command("apply", cls=panels.Command)(apply.apply)
app.command("report", cls=panels.Command)(report.report)
app.command("compare", cls=compare.Command)(compare.compare)
app.command("history", cls=panels.Command)(history.history)
app.command("doctor", cls=panels.Command, context_settings=_OURS_AND_THEIRS)(doctor.doctor)
app.command("diagnose", cls=panels.Command)(diagnose.diagnose)
app.command("restore", cls=panels.Command)(restore.restore)
app.command("profile", cls=panels.Command, context_settings=_SCRIPT_LAST)(profile.profile)
app.command("tune", cls=panels.Command, context_settings=_SCRIPT_LAST)(tune.tune)
app.command("skill", cls=panels.Command)(skill.skill)
app.add_typer(kernel.app, name="kernel")


def _show_version(value: bool) -> None:
    if value:
        console.out(f"instrument {about.version()}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _start(
    context: typer.Context,
    dry_run: Annotated[
        Path | None,
        typer.Option(
            "--dry-run",
            metavar="SCRIPT",
            help="Print the diff that a run would apply; write nothing. Takes explain's options.",
        ),
    ] = None,
    steps: common.Steps = None,
    warmup: common.Warmup = None,
    scope: common.Scope = "auto",
    loop: common.Loop = "",
    mode: common.Mode = "auto",
    region: common.Region = "",
    keep_validation: common.KeepValidation = False,
    full: common.Full = False,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    if dry_run is None:
        return
    if context.invoked_subcommand is not None:
        raise UsageError(
            "--dry-run SCRIPT stands alone",
            f"For a run: instrument {context.invoked_subcommand} --dry-run SCRIPT ARGS.",
        )
    from instrumentor.commands.preview import preview

    preview(
        dry_run,
        common.make_options(
            steps=steps,
            warmup=warmup,
            scope=scope,
            loop=loop,
            mode=mode,
            region=region,
            keep_validation=keep_validation,
        ),
        full=full,
        words=following.typed(context),
    )
    raise typer.Exit


def _defaults(group: Any) -> dict[str, Any]:
    """Defaults of `[tool.instrument]`, for the bare command and for each verb."""
    from instrumentor.config import find_defaults

    table, path = find_defaults(Path.cwd())
    if not table:
        return {}
    known = {name: _options(command) for name, command in group.commands.items()}
    for name in ("apply", "profile"):
        del known[name]["output"]  # a file there, a folder elsewhere
    every = {key: option for options in known.values() for key, option in options.items()}
    for key, value in table.items():
        where = f"{path}: [tool.instrument]"
        if key not in every:
            raise UsageError(f"{where} has no option {key!r}", "See instrument run --help.")
        wanted = _wanted_type(every[key])
        if wanted and not isinstance(value, wanted):
            raise UsageError(f"{where}: {key} must be {_WORDS[wanted]}, not {value!r}")
    own = {key: table[key] for key in _options(group) if key in table and key != "dry_run"}
    return own | {
        name: {key: table[key] for key in options if key in table}
        for name, options in known.items()
    }


def _options(command: Any) -> dict[str, Any]:
    options = (p for p in command.params if p.param_type_name == "option")
    return {p.name: p for p in options if p.name not in _ONE_TIME}


def _wanted_type(option: Any) -> type | None:
    """What Typer does not check by itself: it would fail on these, or take the wrong value."""
    if option.is_flag:
        return bool
    if option.multiple:
        return list
    return str if option.type.name in ("str", "path") else None


def _alone(argv: Sequence[str]) -> typer.Typer:
    """The application with no verb but the one called: to build them all takes 50 ms."""
    from instrumentor.config import find_defaults

    called = [c for c in app.registered_commands if argv and c.name == argv[0]]
    # A key in a file is held against the options of every verb.
    if not called or (list(argv[:1]) not in _UNCONFIGURED and find_defaults(Path.cwd())[0]):
        return app
    small = copy.copy(app)
    small.registered_commands, small.registered_groups = called, []
    return small


def invoke(argv: Sequence[str]) -> int:
    """Run one command line; returns its exit code.

    Raises:
        InstrumentError: what the library raised.
        KeyboardInterrupt: the user interrupted outside of a run.
        BrokenPipeError: nobody reads any more.
    """
    try:
        code = _alone(argv)(list(argv), standalone_mode=False, prog_name="instrument")
    except typer.Exit as stop:
        return stop.exit_code
    except typer.Abort as abort:
        raise KeyboardInterrupt from abort
    except SystemExit as stop:
        # Typer ends with 1 when the reader of a pipe has gone, which is no failure.
        if isinstance(stop.__context__, BrokenPipeError):
            raise stop.__context__ from None
        raise
    except Exception as error:
        # Typer's own usage errors know how to show themselves and carry code 2.
        show = getattr(error, "show", None)
        if show is None:
            raise
        text = io.StringIO()
        show(file=text)
        console.say(text.getvalue().rstrip("\n"))
        return int(getattr(error, "exit_code", 2))
    return code if isinstance(code, int) else 0
