"""One side of a comparison: a run folder, an ops CSV, or a summary.json alone.

Single ops only a folder has.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec import Struct, ValidationError
from msgspec.structs import replace

from instrumentor_analysis.clock.populations import typical_ms
from instrumentor_analysis.compare.model import SideFacts
from instrumentor_analysis.compare.op_lists import OpList, op_list
from instrumentor_analysis.load.run_folder import nearest_run, well_formed
from instrumentor_analysis.model import SCHEMA, Step, Summary, WallClock
from instrumentor_analysis.shared.documents import read
from instrumentor_analysis.shared.errors import NotASummary, NothingMeasured

_HINT = "Give a run folder that `instrument run` made, or the summary.json in it."


class Side(Struct, frozen=True):
    """One side.

    Attributes:
        name: what it is called in every report.
        source: the path that was given.
        summary: its figures.
        ops: the single ops of the step; None without them.
        batch_size: samples in one step; None when unknown.
        batch_source: where that is from, in words.
        untraced: its wall clock is that of its run without Tracy.
    """

    name: str
    source: str
    summary: Summary
    ops: OpList | None = None
    batch_size: int | None = None
    batch_source: str = ""
    untraced: bool = False

    @property
    def profiler(self) -> str:
        """``tracy``, ``torch`` or ``wallclock``."""
        return self.summary.profiler

    @property
    def traced(self) -> bool:
        """Its wall clock was taken under Tracy."""
        return self.profiler == "tracy" and not self.untraced

    @property
    def has_untraced(self) -> bool:
        """There was a run without Tracy before the one with it, and it has steady steps."""
        return self.summary.untraced is not None and bool(self.summary.untraced.samples_ms)

    @property
    def main_wall(self) -> WallClock | None:
        """Statistics of the wall clock's main label."""
        return self.summary.untraced if self.untraced else self.summary.wall_clock

    @property
    def on_device(self) -> bool:
        """There is a device time."""
        return self.summary.device_time_ms is not None

    def samples_ms(self, label: str) -> tuple[float, ...]:
        """The steady samples of a label, in order."""
        by_label = self.summary.wall_clock_by_label
        # The run without Tracy keeps its main label only.
        wall = self.main_wall if self.untraced else by_label.get(label)
        return wall.samples_ms if wall is not None and wall.label == label else ()

    def mixed(self, label: str) -> bool:
        """Whether the samples of a label are of several kinds, of which no median tells."""
        wall = self.main_wall if self.untraced else self.summary.wall_clock_by_label.get(label)
        return wall is not None and wall.label == label and bool(wall.populations)

    def labels(self) -> tuple[str, ...]:
        """Labels with steady samples, the main one first."""
        every = self.summary.wall_clock_by_label
        first = sorted(every, key=lambda label: label != self.summary.scope)
        return tuple(label for label in first if self.samples_ms(label))

    def iterations_ms(self) -> tuple[str, int, tuple[float, ...]]:
        """See :func:`iterations_ms`."""
        return iterations_ms(self.main_wall)

    def step_device_ms(self) -> tuple[float, ...]:
        """Device time of each steady step that has one."""
        times = [step.device_time_ms for step in self.summary.steps if _is_steady(step)]
        return tuple(time for time in times if time is not None)

    def with_batch_size(self, size: int, source: str = "as given") -> Side:
        """This side with another batch size.

        Args:
            source: where the size is from, in words.
        """
        return replace(self, batch_size=size, batch_source=source)

    def facts(self) -> SideFacts:
        """The side as the comparison names it."""
        return SideFacts(
            name=self.name,
            source=self.source,
            profiler=self.profiler,
            scope=self.summary.scope,
            architecture=self.summary.architecture,
            batch_size=self.batch_size,
            batch_source=self.batch_source,
            run=self.summary.run,
            environment=self.summary.environment,
        )


def iterations_ms(wall: WallClock | None) -> tuple[str, int, tuple[float, ...]]:
    """What an iteration is called, the steps in it, and what each took, in order.

    Of micro-steps each is an update; nothing where iterations are of several kinds.
    """
    found = None if wall is None else wall.iteration
    if found is None or (found.is_mean and (found.update is None or not found.update.ms)):
        return "", 1, ()
    if found.update is None:
        return "iteration", 1, found.median_of_ms
    return found.update.label, found.update.micro_steps or 1, found.update.values_ms


def _is_steady(step: Step) -> bool:
    """Whether a step is steady: by its record, else (a lone CSV) by the name in its signposts."""
    return step.kind == "steady" or (step.kind is None and "_steady_" in step.name)


def load_side(path: Path | str, *, name: str | None = None, batch_size: int | None = None) -> Side:
    """Read a run folder, a summary.json, or an ops CSV.

    Args:
        name: what to call it; by default the folder's name.
        batch_size: samples in one step, over what the run recorded.

    Raises:
        NothingMeasured: there is nothing of a run at that path.
        NotASummary: the file is JSON, but no summary.
        AnalysisError: the run cannot be analysed.
    """
    path = Path(path)
    inside = path / "summary.json"
    # Without run.json the facts of the run are in its summary.json alone.
    if path.is_dir() and not (path / "run.json").is_file() and inside.is_file():
        side = _side_of_file(inside, name or path.resolve().name)
    elif path.is_file() and path.suffix == ".json":
        side = _side_of_file(path, name or path.resolve().parent.name)
    else:
        from instrumentor_analysis.summary.summarise import analyse

        if not path.exists():
            raise NothingMeasured(f"{path} does not exist", nearest_run(path))
        analysis = analyse(path)
        side = side_of(analysis.summary, name or path.resolve().name, str(path))
        side = replace(side, ops=op_list(analysis))
    return side if batch_size is None else side.with_batch_size(batch_size)


def _side_of_file(path: Path, name: str) -> Side:
    try:
        document = read(path)
    except ValueError as error:
        raise NotASummary(f"{path} is not JSON: {error}", _HINT) from error
    return side_of_document(document, name, str(path))


def side_of_document(document: Any, name: str, source: str) -> Side:
    """A side out of the document of a summary.json, without single ops.

    Raises:
        NotASummary: it is none.
    """
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise NotASummary(f"{source} is not a summary: its schema is not {SCHEMA}", _HINT)
    try:
        return side_of(Summary.from_json(_sound(document)), name, source)
    except ValidationError as error:
        raise NotASummary(f"{source} is not a summary: {error}", _HINT) from error


def _sound(document: dict[str, Any]) -> dict[str, Any]:
    """Without those of the run's facts in it that are not what a reader takes them for."""
    facts = {key: document[key] for key in ("verification", "environment") if key in document}
    run = document.get("run")
    sound = well_formed(facts) | {"run": well_formed(run) if isinstance(run, dict) else {}}
    return {key: value for key, value in document.items() if key not in facts} | sound


def side_of(summary: Summary, name: str, source: str) -> Side:
    """A side with the batch size that the run itself tells.

    Args:
        name: what it is called in every report.
        source: the path that was given.
    """
    made = Side(name, source, summary)
    size, counted = summary.run.get("batch_size"), _counted(made.main_wall)
    if counted is not None and counted != size:
        # The record counts all micro-batches of a step, of which a YAML knows nothing.
        return made.with_batch_size(counted, "samples of a step as recorded")
    if not isinstance(size, int) or size < 1:
        return made
    origin = str(summary.run.get("batch_size_source") or "recorded with the run")
    return made.with_batch_size(size, origin)


def _counted(wall: WallClock | None) -> int | None:
    """Samples of a step as the throughput has them; None unless they are a whole number."""
    if wall is None or wall.samples_per_s is None or wall.median_ms is None:
        return None
    # Undoes throughput.py: whole but for floating point, unless steps differ in their samples.
    typical = typical_ms(wall.populations, wall.samples_ms or (wall.median_ms,))
    samples = wall.samples_per_s * typical / 1000
    whole = round(samples)
    return whole if whole and abs(samples - whole) < 1e-6 * whole else None
