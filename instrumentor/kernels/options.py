"""What a user may choose about a kernel's run, as values; each option is a field."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path

from instrumentor.kernels.environment import MODES
from instrumentor.run.options import ProcessOptions
from instrumentor.shared.errors import UsageError
from instrumentor.shared.option_fields import MEASURE, WHERE, Checked, option, output_file

_SHAPE = re.compile(r"\d+(?:x\d+)*")


def parse_command(text: str) -> tuple[str, ...]:
    """Words of a command, split as a shell would.

    Raises:
        UsageError: a quotation is not closed.
    """
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise UsageError(f"--validate {text}: {error}") from error


def parse_shapes(text: str) -> tuple[tuple[int, ...], ...]:
    """`8192x8192` or `8192x4096,4096x8192` as shapes.

    Raises:
        UsageError: it is no such list.
    """
    shapes = []
    for part in filter(None, (piece.strip().lower() for piece in text.split(","))):
        # Far below the 4,300 digits at which int() raises ValueError.
        if not _SHAPE.fullmatch(part) or len(part) > 100:
            raise UsageError(
                f"--production-shape {text}: expected ROWSxCOLS",
                "One shape for all arguments, or one for each: 8192x4096,4096x8192.",
            )
        shapes.append(tuple(int(extent) for extent in part.split("x")))
    return tuple(shapes)


@dataclass(frozen=True)
class Choice:
    """Which invocation is measured."""

    kernel: str = option(
        MEASURE,
        "",
        "The kernel, as NAME or FACTORY.NAME; needed when several are invoked.",
        metavar="NAME",
        once=True,
    )
    call: int | None = option(
        MEASURE, None, "Its Nth invocation, as explain numbers them.", metavar="N", once=True
    )


@dataclass(frozen=True)
class Criteria(Checked):
    """How a kernel is validated; the tolerances are those of numpy's ``allclose``.

    Raises:
        UsageError: an option without its partner, or one that cannot be used.
    """

    validate: tuple[str, ...] = option(
        MEASURE,
        (),
        "Command that checks the kernel, run on your own files without profilers; its exit code "
        "decides.",
        metavar="COMMAND",
        convert=parse_command,
        once=True,
    )
    reference: Path | None = option(
        MEASURE,
        None,
        "The reference output (.npy, .npz, .json, .csv, .txt), with --output-file.",
        metavar="FILE",
        once=True,
    )
    output_file: Path | None = option(
        MEASURE,
        None,
        "The file that the script writes and that is compared with --reference.",
        metavar="FILE",
        once=True,
    )
    rtol: float = option(
        MEASURE, 1e-2, "Relative tolerance of that comparison.", minimum=0, once=True
    )
    atol: float = option(
        MEASURE, 1e-2, "Absolute tolerance of that comparison.", minimum=0, once=True
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.reference is None) != (self.output_file is None):
            raise UsageError(
                "--reference and --output-file belong together",
                "Name the file with the right output, and the file that the script writes.",
            )
        if self.reference is not None and not self.reference.is_file():
            raise UsageError(f"--reference {self.reference}: does not exist")

    @property
    def given(self) -> bool:
        """Whether there is anything to validate by."""
        return bool(self.validate) or self.reference is not None


_GRID = re.compile(r"[1-9]\d{0,3},[1-9]\d{0,3}")


def parse_grid(text: str) -> str:
    """`8,8` as it is.

    Raises:
        UsageError: it is no pair of numbers.
    """
    if not _GRID.fullmatch(text):
        raise UsageError(f"--grid {text}: expected ROWS,COLUMNS", "Such as --grid 8,8.")
    return text


@dataclass(frozen=True)
class Simulated(Checked):
    """How tt-lang's simulator runs a kernel; what is not given has the simulator's default.

    Attributes:
        grid: rows and columns.
        arch: the chip of the floor, a model.

    Raises:
        UsageError: a value out of range.
    """

    simulate: bool = option(
        WHERE,
        False,
        "Run on tt-lang's simulator (tt-lang-sim), without a device: correct or not, traffic, "
        "balance, L1; no times.",
        once=True,
    )
    grid: str | None = option(
        WHERE,
        None,
        'Simulated nodes of grid="full".',
        metavar="ROWS,COLUMNS",
        convert=parse_grid,
        once=True,
    )
    max_l1: int | None = option(
        WHERE, None, "Simulated L1 of a node.", metavar="BYTES", minimum=1, once=True
    )
    num_devices: int | None = option(
        WHERE, None, "Simulated devices.", metavar="N", minimum=1, once=True
    )
    scheduler: str | None = option(
        WHERE,
        None,
        "Who takes turns in the simulator: whoever ran least, or each until it has to wait.",
        choices=("fair", "greedy"),
        once=True,
    )
    no_arithmetic: bool = option(
        WHERE,
        False,
        "Simulate copies and waits only, much faster: results are not computed, nor checked.",
        once=True,
    )
    arch: str = option(
        MEASURE,
        "wormhole",
        "Chip whose peaks a simulated kernel's floor is a model of.",
        once=True,
    )

    @property
    def words(self) -> tuple[str, ...]:
        """Options of tt-lang-sim."""
        names = {"grid": self.grid, "max-l1": self.max_l1, "num-devices": self.num_devices}
        pairs = {**names, "scheduler": self.scheduler}.items()
        given = [word for name, value in pairs if value for word in (f"--{name}", str(value))]
        return (*given, *(("--dry-run",) if self.no_arithmetic else ()))


@dataclass(frozen=True)
class KernelOptions(ProcessOptions):
    """Choices of a measured invocation.

    Attributes:
        production_shape: the last one stands for the rest of the arguments.

    Raises:
        UsageError: a value out of range.
    """

    choice: Choice = field(default_factory=Choice)
    criteria: Criteria = field(default_factory=Criteria)
    simulated: Simulated = field(default_factory=Simulated)
    mode: str = option(
        MEASURE,
        "perf",
        "auto-profile: cycles line by line; perf: duration and data movement; signposts: regions "
        "marked with ttl.signpost().",
        choices=MODES,
        once=True,
    )
    production_shape: tuple[tuple[int, ...], ...] = option(
        MEASURE,
        (),
        "Shape of the arguments in production: one for all, or one for each.",
        metavar="RxC,...",
        convert=parse_shapes,
        once=True,
    )
    chips: int = option(MEASURE, 1, "Chips that production will use.", minimum=1, once=True)
    run_test: str = option(
        WHERE,
        "auto",
        "tt-lang's run-test.sh; auto: the one on PATH or in the project; no: run directly.",
        metavar="PATH|auto|no",
        once=True,
    )
    output: Path | None = output_file(
        "The run folder; default instrument-runs/NAME_kernel-N here, which git ignores.",
        "-o",
        "--output",
        metavar="DIR",
    )
