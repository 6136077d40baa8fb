"""What several verbs share: option types with their environment variables, the dry run's words."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from instrumentor import console
from instrumentor.errors import UsageError
from instrumentor.options import PROFILERS, Options, parse_loop, parse_region

Steps = Annotated[
    int | None,
    typer.Option(
        "--steps",
        envvar="INSTRUMENT_STEPS",
        help="Samples to take, the warm-up included; default 5, of inference and --region 13.",
    ),
]
Warmup = Annotated[
    int | None,
    typer.Option(
        "--warmup",
        envvar="INSTRUMENT_WARMUP",
        help=(
            "Leading samples that are not steady: 1 for the compile step (the default), 3 with "
            "runtime trace, of inference and --region 3."
        ),
    ),
]
Scope = Annotated[
    str,
    typer.Option(
        "--scope",
        envvar="INSTRUMENT_SCOPE",
        metavar="auto|fwd-bwd|step",
        help="What a sample covers: forward and backward, or the whole step with the optimizer.",
    ),
]
Loop = Annotated[
    str,
    typer.Option(
        "--loop",
        envvar="INSTRUMENT_LOOP",
        metavar="FILE:LINE",
        help="The training loop to take when there are several.",
    ),
]
KeepValidation = Annotated[
    bool,
    typer.Option(
        "--keep-validation",
        envvar="INSTRUMENT_KEEP_VALIDATION",
        help="Leave initial and in-loop validation in place.",
    ),
]
Mode = Annotated[
    str,
    typer.Option(
        "--mode",
        envvar="INSTRUMENT_MODE",
        metavar="auto|train|inference",
        help="Which loop to time: training, or inference (under no_grad); auto: what is there.",
    ),
]
Region = Annotated[
    str,
    typer.Option(
        "--region",
        envvar="INSTRUMENT_REGION",
        metavar="FILE:START-END",
        help="Time these lines instead of a loop's step.",
    ),
]
ProfilerName = Annotated[
    str,
    typer.Option(
        "--profiler",
        envvar="INSTRUMENT_PROFILER",
        metavar="|".join(PROFILERS),
        help="How to measure; auto: tracy with a Tenstorrent device, else torch.",
    ),
]
Full = Annotated[
    bool,
    typer.Option(
        "--full",
        envvar="INSTRUMENT_FULL",
        help="With --dry-run: show the recorder's module as well.",
    ),
]
Only = Annotated[
    str,
    typer.Option(
        "--only",
        envvar="INSTRUMENT_ONLY",
        metavar="PASS,...",
        help="Apply only these passes (the recorder always).",
    ),
]
Skip = Annotated[
    str,
    typer.Option(
        "--skip", envvar="INSTRUMENT_SKIP", metavar="PASS,...", help="Leave these passes out."
    ),
]
Json = Annotated[
    bool, typer.Option("--json", envvar="INSTRUMENT_JSON", help="Print the result as JSON.")
]
Python = Annotated[
    str | None,
    typer.Option(
        "--python",
        envvar="INSTRUMENT_PYTHON",
        help=(
            "The script's interpreter; default: the active environment's, else "
            "env/crank_env or env/xla_env, else this one."
        ),
    ),
]
TtXla = Annotated[
    Path | None,
    typer.Option(
        "--tt-xla",
        envvar="INSTRUMENT_TT_XLA",
        metavar="DIR",
        help=(
            "tt-xla checkout; its python_package joins PYTHONPATH. Searched beside the repository."
        ),
    ),
]
TracyToolsFolder = Annotated[
    Path | None,
    typer.Option(
        "--tracy-tools-folder",
        envvar="INSTRUMENT_TRACY_TOOLS_FOLDER",
        metavar="DIR",
        help="Folder with Tracy's capture and csvexport tools.",
    ),
]
OpSupportCount = Annotated[
    int | None,
    typer.Option(
        "--op-support-count",
        envvar="INSTRUMENT_OP_SUPPORT_COUNT",
        metavar="N",
        help=(
            "Programs that Tracy's buffers on the device must hold between two reads; default "
            "1000, or more when an earlier run counted more."
        ),
    ),
]
Timeout = Annotated[
    float | None,
    typer.Option(
        "--timeout",
        envvar="INSTRUMENT_TIMEOUT",
        metavar="S",
        help="Limit for one run, seconds.",
    ),
]
Reset = Annotated[
    bool,
    typer.Option(
        "--reset",
        envvar="INSTRUMENT_RESET",
        help="Reset the boards with tt-smi first, and wait until they answer.",
    ),
]
Yes = Annotated[
    bool,
    typer.Option(
        "--yes",
        envvar="INSTRUMENT_YES",
        help=(
            "End processes that hold the device first: SIGINT, then SIGTERM, never SIGKILL. "
            "Without it they are only shown."
        ),
    ),
]
Module = Annotated[
    str,
    typer.Option(
        "-m",
        metavar="MODULE",
        help="Run a module as python -m does; what follows are its arguments.",
    ),
]
Link = Annotated[
    list[Path] | None,
    typer.Option(
        "--link",
        envvar="INSTRUMENT_LINK",
        metavar="DIR",
        help="Link this folder into the copy instead of copying it.",
    ),
]
NoLink = Annotated[
    list[Path] | None,
    typer.Option(
        "--no-link",
        envvar="INSTRUMENT_NO_LINK",
        metavar="DIR",
        help="Do not link this folder into the copy.",
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Replace output files that exist.")]
Quiet = Annotated[
    bool,
    typer.Option("--quiet", "-q", envvar="INSTRUMENT_QUIET", help="No progress, only the result."),
]
Verbose = Annotated[
    bool,
    typer.Option(
        "--verbose",
        "-v",
        envvar="INSTRUMENT_VERBOSE",
        help="Show the script's output as it comes.",
    ),
]


def names(text: str) -> tuple[str, ...]:
    """A comma-separated list."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def script_of(
    script: Path | None, arguments: Sequence[str] | None, module: str
) -> tuple[Path, list[str]]:
    """The script and its arguments, of `SCRIPT ARGS` or of `-m MODULE ARGS`.

    Raises:
        UsageError: neither is given, or there is no such module.
    """
    given = list(arguments or [])
    if not module:
        if script is None:
            raise UsageError("no script was given", "instrument run train.py [ARGUMENTS]")
        return script, given
    from instrumentor.prepare import module_path

    return module_path(module, Path.cwd()), [*([str(script)] if script else []), *given]


def tell_handed_over(context: typer.Context, script: Path, arguments: Sequence[str]) -> None:
    """Say which of the script's arguments look like options of this command.

    What stands behind the script is the script's; who meant us finds out before the run.
    """
    ours = {name for parameter in context.command.params for name in parameter.opts}
    taken = [word for word in arguments if word.partition("=")[0] in ours and word != "-"]
    if taken:
        console.say(
            f"Handed to {script.name}: {' '.join(taken)} (options of instrument go "
            "before the script)"
        )


def configured(context: typer.Context) -> frozenset[str]:
    """The options that a pyproject.toml gave: it may have come with the project, from anybody."""
    given = ((name, context.get_parameter_source(name)) for name in context.params)
    return frozenset(name for name, source in given if source and source.name == "DEFAULT_MAP")


def make_options(**values: Any) -> Options:
    """Options from what the command line gave."""
    loop = values.pop("loop", "")
    region = values.pop("region", "")
    asked = ("steps", "warmup")
    sampling = {name: values.pop(name) for name in asked if name in values}
    given = {name: value for name, value in sampling.items() if value is not None}
    return Options(
        given=tuple(given),
        **given,
        loop=parse_loop(loop) if loop else None,
        region=parse_region(region) if region else None,
        only=names(values.pop("only", "")),
        skip=names(values.pop("skip", "")),
        **values,
    )


def existing(path: Path | None, option: str) -> Path | None:
    """A path that was given and exists, or None.

    Raises:
        UsageError: it does not exist.
    """
    if path is not None and not path.exists():
        raise UsageError(f"{option} {path}: does not exist")
    return path
