"""The command line: thin over the library, one error seam, documented exit codes."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from instrumentor import console
from instrumentor.commands import apply, common, explain, report, run
from instrumentor.errors import EXIT_CODES, InstrumentError

_EPILOG = (
    "Exit codes: "
    + "; ".join(f"{code} {text.split(':')[0]}" for code, text in EXIT_CODES.items())
    + "."
)

app = typer.Typer(
    name="instrument",
    help="Measure one training step with one command; your files are never touched.",
    epilog=_EPILOG,
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_SCRIPT_LAST = {"allow_interspersed_args": False, "ignore_unknown_options": False}

app.command("run", context_settings=_SCRIPT_LAST)(run.run)
app.command("explain", context_settings={"allow_interspersed_args": True})(explain.explain)
app.command("apply")(apply.apply)
app.command("report")(report.report)


def _show_version(value: bool) -> None:
    if value:
        from importlib.metadata import version

        console.out(f"instrument {version('instrumentor')}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _start(
    context: typer.Context,
    dry_run: Annotated[
        Path | None,
        typer.Option(
            "--dry-run",
            metavar="SCRIPT",
            help="Print the diff that a run would apply; write nothing.",
        ),
    ] = None,
    steps: common.Steps = 5,
    warmup: common.Warmup = 1,
    scope: common.Scope = "auto",
    loop: common.Loop = "",
    keep_validation: common.KeepValidation = False,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    _read_config(context)
    if dry_run is None:
        return
    if context.invoked_subcommand is not None:
        from instrumentor.errors import UsageError

        raise UsageError(
            "--dry-run SCRIPT stands alone",
            f"For a run: instrument {context.invoked_subcommand} --dry-run SCRIPT ARGS.",
        )
    from instrumentor.commands.preview import preview

    preview(
        dry_run,
        common.make_options(
            steps=steps, warmup=warmup, scope=scope, loop=loop, keep_validation=keep_validation
        ),
    )
    raise typer.Exit


def _read_config(context: typer.Context) -> None:
    from instrumentor.config import find_defaults

    defaults, path = find_defaults(Path.cwd())
    if not defaults:
        return
    known = _known_options(context)
    unknown = sorted(set(defaults) - known)
    if unknown:
        from instrumentor.errors import UsageError

        raise UsageError(
            f"{path}: [tool.instrument] has no option {unknown[0]!r}", "See instrument run --help."
        )
    context.default_map = dict.fromkeys(("run", "explain", "apply"), defaults)


def _known_options(context: typer.Context) -> set[str]:
    group: Any = context.command
    return {p.name for command in group.commands.values() for p in command.params if p.name}


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point of `instrument`; ends the process with a documented exit code."""
    sys.exit(call(list(sys.argv[1:] if argv is None else argv)))


def call(argv: list[str]) -> int:
    """Run one command line; returns its exit code, printing errors as what / do this."""
    try:
        code = app(argv, standalone_mode=False, prog_name="instrument")
    except InstrumentError as error:
        console.fail(error)
        return error.exit_code
    except typer.Exit as stop:
        return stop.exit_code
    except (typer.Abort, KeyboardInterrupt):
        return 130
    except BrokenPipeError:
        sys.stderr.close()
        return 0
    except Exception as error:
        # Typer's own usage errors: they know how to show themselves and carry code 2.
        show = getattr(error, "show", None)
        if show is None:
            raise
        show()
        return int(getattr(error, "exit_code", 2))
    return code if isinstance(code, int) else 0


if __name__ == "__main__":
    main()
