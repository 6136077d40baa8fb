"""One side of a comparison: a run folder, an ops CSV, or a summary.json alone.

Figures are read from the document ``instrument-summary/1``, so that a run folder and a summary
that was kept elsewhere go the same way; single ops only a folder has.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from instrumentor_analysis.comparison.model import SideFacts
from instrumentor_analysis.comparison.op_lists import OpList, op_list
from instrumentor_analysis.errors import NotASummary, NothingMeasured
from instrumentor_analysis.model import SCHEMA


class Side(Struct, frozen=True):
    """One side.

    Attributes:
        name: what it is called in every report.
        source: the path that was given.
        document: of summary.json; any key may be absent.
        ops: the single ops of the step; None without them.
        batch_size: samples in one step; None when unknown.
        batch_source: where that is from, in words.
        untraced: its wall clock is that of its run without Tracy.
    """

    name: str
    source: str
    document: Mapping[str, Any]
    ops: OpList | None = None
    batch_size: int | None = None
    batch_source: str = ""
    untraced: bool = False

    @property
    def traced(self) -> bool:
        """Its wall clock was taken under Tracy."""
        return self.profiler == "tracy" and not self.untraced

    @property
    def has_untraced(self) -> bool:
        """There was a run without Tracy before the one with it, and it has steady steps."""
        return bool(numbers(self.mapping("untraced_wall_clock_ms").get("values")))

    @property
    def main_wall(self) -> Mapping[str, Any]:
        """Statistics of the wall clock's main label."""
        return self.mapping("untraced_wall_clock_ms" if self.untraced else "wall_clock_ms")

    @property
    def profiler(self) -> str:
        """``tracy``, ``torch`` or ``wallclock``."""
        return str(self.document.get("profiler") or "wallclock")

    def number(self, *path: str) -> float | None:
        """A figure of the document, or None."""
        value: Any = self.document
        for key in path:
            value = value.get(key) if isinstance(value, Mapping) else None
        return as_number(value)

    def mapping(self, key: str) -> Mapping[str, Any]:
        """An object of the document, else an empty one."""
        value = self.document.get(key)
        return value if isinstance(value, Mapping) else {}

    def entries(self, key: str) -> list[Mapping[str, Any]]:
        """The objects of a list in the document."""
        return objects(self.document.get(key))

    def samples_ms(self, label: str) -> tuple[float, ...]:
        """The steady samples of a label, in order."""
        if self.untraced:
            same = self.main_wall.get("label") == label
            return numbers(self.main_wall.get("values")) if same else ()
        wall = self.mapping("wall_clock_by_label").get(label)
        return numbers(wall.get("values")) if isinstance(wall, Mapping) else ()

    def labels(self) -> tuple[str, ...]:
        """Labels with steady samples, the main one first."""
        main = str(self.document.get("scope") or "")
        every = sorted(self.mapping("wall_clock_by_label"), key=lambda label: label != main)
        return tuple(label for label in every if self.samples_ms(label))

    def step_device_ms(self) -> tuple[float, ...]:
        """Device time of each steady step that has one."""
        steady = [step for step in self.entries("steps") if _is_steady(step)]
        return numbers([step.get("device_time_ms") for step in steady])

    def facts(self) -> SideFacts:
        """The side as the comparison names it."""
        scope, architecture = self.document.get("scope"), self.document.get("architecture")
        return SideFacts(
            name=self.name,
            source=self.source,
            profiler=self.profiler,
            scope=None if scope is None else str(scope),
            architecture=None if architecture is None else str(architecture),
            batch_size=self.batch_size,
            batch_source=self.batch_source,
            run=dict(self.mapping("run")),
            environment=dict(self.mapping("environment")),
        )


def _is_steady(step: Mapping[str, Any]) -> bool:
    """By its record; without one, of a lone CSV, by the name in its signposts."""
    kind = step.get("kind")
    return kind == "steady" or (kind is None and "_steady_" in str(step.get("name")))


def as_number(value: Any) -> float | None:
    """A figure of a document; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value)


def numbers(values: Any) -> tuple[float, ...]:
    """The figures of a list; empty for anything else."""
    found = [as_number(value) for value in as_list(values)]
    return tuple(value for value in found if value is not None)


def objects(value: Any) -> list[Mapping[str, Any]]:
    """The objects of a list in a document; empty for anything else."""
    return [each for each in as_list(value) if isinstance(each, Mapping)]


def as_list(value: Any) -> Sequence[Any]:
    """A list of a document; empty for anything else."""
    return value if isinstance(value, (list, tuple)) else ()


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
    if path.is_file() and path.suffix == ".json":
        side = side_of_document(_read_document(path), name or path.resolve().parent.name, str(path))
    elif path.is_dir() and not (path / "run.json").is_file() and (path / "summary.json").is_file():
        inside = path / "summary.json"
        return load_side(inside, name=name or path.resolve().name, batch_size=batch_size)
    else:
        from instrumentor_analysis.summary import analyse

        if not path.exists():
            raise NothingMeasured(
                f"{path} does not exist", "Give a run folder or a summary.json of one."
            )
        analysis = analyse(path)
        document = analysis.summary.to_json()
        side = side_of_document(document, name or path.resolve().name, str(path))
        side = replace(side, ops=op_list(analysis))
    if batch_size is not None:
        return replace(side, batch_size=batch_size, batch_source="as given")
    return side


def side_of_document(document: Mapping[str, Any], name: str, source: str) -> Side:
    """A side out of the document of a summary.json, without single ops."""
    made = Side(name, source, document)
    run = made.mapping("run")
    size, counted = as_number(run.get("batch_size")), _counted(made.main_wall)
    if counted is not None and counted != size:
        # Of all micro-batches together, which a YAML knows nothing of.
        return replace(made, batch_size=counted, batch_source="samples of a step as recorded")
    if size is None or size < 1:
        return made
    origin = str(run.get("batch_size_source") or "recorded with the run")
    return replace(made, batch_size=int(size), batch_source=origin)


def _counted(wall: Mapping[str, Any]) -> int | None:
    """Samples of a step as the throughput has them; None unless they are a whole number."""
    rate, median = as_number(wall.get("samples_per_s")), as_number(wall.get("median"))
    if rate is None or median is None:
        return None
    samples = rate * median / 1000
    whole = round(samples)
    return whole if whole and abs(samples - whole) < 1e-6 * whole else None


def _read_document(path: Path) -> Mapping[str, Any]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise NotASummary(f"{path} is not JSON: {error}", _SUMMARY_HINT) from error
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise NotASummary(f"{path} is not a summary: its schema is not {SCHEMA}", _SUMMARY_HINT)
    return document


_SUMMARY_HINT = "Give a run folder that `instrument run` made, or the summary.json in it."
