"""The folder of a run: what it records of itself, and where its parts lie.

Every key of run.json may be absent (older versions, or a run that was killed); what is of the
wrong type counts as absent.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from instrumentor_analysis.shared.caveats import Caveat
from instrumentor_analysis.shared.documents import read, sound
from instrumentor_analysis.shared.errors import NothingMeasured
from instrumentor_analysis.shared.files import RUNS_FOLDER, Unfit, opened

_RUN_KEYS = (
    *("name", "label", "script", "arguments", "command", "python", "profiler_reason", "machine"),
    *("ignored_warnings", "chosen"),
    *(
        "steps",
        "warmup",
        "time_budget_s",
        "batch_size",
        "batch_size_source",
        "batch_dim",
        "started",
        "duration_s",
    ),
)
_ENVIRONMENT_KEYS = (
    "python_version",
    "torch_version",
    "host",
    "platform",
    "git_commit",
    "git_dirty",
    "git_parent",
)
#: Name of a Tracy report folder.
_STAMP = re.compile(r"\d{4}(_\d\d)+")
#: Folders above an ops CSV of a run, its own included.
_DEPTH = 5


class _Place(Struct):
    file: str
    line: int


class _Problem(Struct):
    text: str
    places: list[_Place]


class _Verification(Struct):
    status: str
    verified: list[str]
    unverified: dict[str, str]
    problems: list[_Problem]


_TEXTS = ("name", "label", "script", "python", "profiler_reason", "batch_size_source", "started")
_NUMBERS = ("duration_s", "time_budget_s")
_COUNTS = ("steps", "warmup", "batch_size", "batch_dim")
#: What readers take for granted of a fact, once it is there.
_SHAPES: dict[str, Any] = {
    **dict.fromkeys((*_TEXTS, *_ENVIRONMENT_KEYS), str | None),
    **dict.fromkeys(_NUMBERS, float | None),
    **dict.fromkeys(_COUNTS, int | None),
    **dict.fromkeys(("arguments", "command", "chosen"), list[str]),
    "git_dirty": bool | None,
    "git_parent": bool | None,
    "environment": dict[str, Any],
    "machine": dict[str, Any] | None,
    "verification": _Verification | None,
    "causes": list[dict[str, Any]] | None,
    "linked": list[str],
    "linked_changed": list[str],
    "linked_whole": bool,
}


class RunFolder(Struct, frozen=True):
    """Where the parts of a run lie, and the facts in its run.json.

    Attributes:
        path: the folder (the CSV itself, when only that was given).
        facts: run.json as it is; empty when there is none.
        warnings: what was wrong with run.json, and which of several traces was taken.
        ops_csv: Tracy's ops CSV, or None.
        torch_csv: ops of the torch profile, or None.
        more_csvs: ops CSVs of further hosts.
    """

    path: Path
    facts: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[Caveat, ...] = ()
    ops_csv: Path | None = None
    torch_csv: Path | None = None
    more_csvs: tuple[Path, ...] = ()

    @property
    def timings(self) -> Path:
        """The record file; it may not exist."""
        return self.path / "timings.jsonl"

    @property
    def untraced(self) -> Path | None:
        """The record file of a run without the profiler, where one went before."""
        path = self.path / "untraced.jsonl"
        return path if self.mapping("untraced") and path.is_file() else None

    def tracy_log(self, name: str) -> Path | None:
        """A file of Tracy's own logs of the run, or None.

        Of a Tracy folder with several reports there is none to be had: every run wipes ``.logs``,
        so the one that lies there may belong to another report.
        """
        path = self.path / "tracy_profile" / ".logs" / name
        return path if path.is_file() else None

    @property
    def architecture(self) -> str | None:
        """What the device's log beside the ops says in its first line; None where none does."""
        log = self.tracy_log("profile_log_device.csv")
        if log is None:
            return None
        with opened(log) as lines:
            named = re.match(rb"\s*ARCH:\s*(\w{1,32})\b", lines.readline(4096))
        return named[1].decode() if named else None

    @property
    def run_around(self) -> Path | None:
        """The folder of the run that left these ops, where they were given alone."""
        if self.facts or self.ops_csv is None:
            return None
        near = self.ops_csv.absolute().parents[1:_DEPTH]
        return next((each for each in near if (each / "run.json").is_file()), None)

    @property
    def says_simulated(self) -> bool:
        """Whether the run's environment names a simulator."""
        return bool(self.environment.get("simulator"))

    @property
    def is_run(self) -> bool:
        """A folder that `instrument run` made, not one of Tracy's alone."""
        return bool(self.facts) or self.timings.is_file()

    @property
    def diff(self) -> Path:
        """The unified diff of the instrumentation; it may not exist."""
        return self.path / "changes.diff"

    @property
    def profiler(self) -> str:
        """The profiler as recorded, else as the files in the folder tell."""
        named = self.facts.get("profiler")
        if named in ("tracy", "torch", "wallclock"):
            return str(named)
        if self.ops_csv is not None:
            return "tracy"
        return "torch" if self.torch_csv is not None else "wallclock"

    def text(self, key: str) -> str | None:
        """A fact that is a non-empty text, else None."""
        value = self.facts.get(key)
        return value if isinstance(value, str) and value else None

    def mapping(self, key: str) -> dict[str, Any]:
        """A fact that is an object, else an empty one."""
        value = self.facts.get(key)
        return dict(value) if isinstance(value, dict) else {}

    @property
    def ended(self) -> bool:
        """Whether the script came to its own end; also where the run does not say."""
        return self.facts.get("partial") is not True

    @property
    def batch_dim(self) -> int:
        """Axis of a batch along which its samples lie; the first where the run does not say."""
        found = self.facts.get("batch_dim")
        return found if isinstance(found, int) and found >= 0 else 0

    @property
    def batch_dim_guessed(self) -> bool:
        """Whether nothing tells that axis, and the samples may as well lie along another."""
        return self.facts.get("batch_dim_guessed") is True

    @property
    def loop_fetches(self) -> bool:
        """Whether the loop's head may hand out the batch; also where the run does not say."""
        return self.facts.get("loop_fetches") is not False

    @property
    def run(self) -> dict[str, Any]:
        """What was run, and how long; of a trace alone, which file (of several hosts, a list)."""
        if self.is_run:
            known = {key: self.facts[key] for key in _RUN_KEYS if key in self.facts}
            return {**known, "name": self.path.resolve().name}
        read = [str(path) for path in (self.ops_csv or self.torch_csv, *self.more_csvs) if path]
        return {"ops": read if len(read) > 1 else read[0]} if read else {}

    @property
    def environment(self) -> dict[str, Any]:
        """Versions, machine and commit."""
        known = {key: self.facts[key] for key in _ENVIRONMENT_KEYS if key in self.facts}
        return known | self.mapping("environment")

    @property
    def exit_code(self) -> int | None:
        """Exit code of the measured script; None when unknown."""
        code = self.facts.get("script_exit_code")
        # True and False are of type int.
        return code if isinstance(code, int) and not isinstance(code, bool) else None


def open_run(source: Path, *more: Path) -> RunFolder:
    """Look at a run folder, a Tracy report folder (or one that holds some), or a lone ops CSV.

    Args:
        more: ops CSVs of further hosts, beside a lone one.

    Raises:
        NothingMeasured: there is nothing of a run at that path.
    """
    if source.is_file():
        _refuse_other_files(source)
        return RunFolder(source, ops_csv=source, more_csvs=more)
    if source.is_symlink() and not source.exists():
        to = source.readlink()
        raise NothingMeasured(f"{source} is a broken link to {to}", "Give the folder itself.")
    if not source.is_dir():
        raise NothingMeasured(f"{source} does not exist", nearest_run(source))
    facts, warnings = read_facts(source)
    csvs = ops_csvs(source)
    if len(csvs) > 1:
        warnings += (_which(f"{len(csvs)} ops CSVs in {source}: read {csvs[-1].name}"),)
    folder = RunFolder(source, facts, warnings, csvs[-1] if csvs else None, _torch_csv(source))
    if not facts and not folder.timings.is_file() and not folder.ops_csv and not folder.torch_csv:
        reports = _tracy_reports(source)
        if reports:
            newest = open_run(reports[-1])
            if len(reports) > 1:
                text = f"{len(reports)} reports below {source}: read the newest, {reports[-1]}"
                newest = replace(newest, warnings=(_which(text), *newest.warnings))
            return newest
        raise NothingMeasured(
            f"{source} is not the folder of a run: no run.json, timings or ops CSV in it",
            "Give a folder that `instrument run` made, a Tracy report folder, or an ops CSV.",
        )
    return folder


def _refuse_other_files(source: Path) -> None:
    """Say what is expected in the place of a file that is certainly no ops CSV.

    Raises:
        NothingMeasured: it is a script, or a file of a run.
    """
    kind = source.suffix.lower()
    if kind == ".py":
        raise NothingMeasured(
            f"{source} is a script, and a report is of what was measured",
            f"Give the folder of a run, such as {RUNS_FOLDER}/latest, or an ops CSV of Tracy; to "
            f"measure the script: instrument run {shlex.quote(str(source))}",
        )
    if kind != ".csv" and (source.parent / "run.json").is_file():
        folder = shlex.quote(str(source.parent))
        raise NothingMeasured(
            f"{source} is one of the files of a run",
            f"Give the folder: instrument report {folder}",
        )


def nearest_run(missing: Path) -> str:
    """The hint of a run that is not there: those beside it with figures, the most similar first."""
    places = (missing.parent, missing.parent / RUNS_FOLDER)
    there = [run.parent for place in places for run in sorted(place.glob("*/run.json"))]
    found = {run.name: str(run) for run in reversed(there)}
    # A cutoff of 0 keeps runs whose names have nothing in common with it, after the similar ones.
    similar = get_close_matches(missing.name, list(found), len(found) or 1, 0)
    names = [*islice((name for name in similar if _has_figures(Path(found[name]))), 3)]
    those = f": {', '.join(found[name] for name in names)}" if names else ""
    return f"Give the folder of an earlier run{those}."


def _has_figures(run: Path) -> bool:
    """Whether a run's summary holds a timed step or ops; of a run that failed it holds neither."""
    try:
        summary = read(run / "summary.json")
    except (OSError, ValueError):
        return False
    if not isinstance(summary, dict):
        return False
    clock = summary.get("wall_clock_ms")
    timed = isinstance(clock, dict) and (clock.get("samples") or clock.get("compile") is not None)
    return bool(timed) or summary.get("op_count") is not None


def _tracy_reports(folder: Path) -> list[Path]:
    """The report folders below Tracy's output folder or its `reports`, the newest last.

    They lie in `reports/[NAME/]TIMESTAMP/`.
    """
    found: dict[Path, tuple[str, float]] = {}
    for depth in ("*", "*/*", "reports/*/*"):
        for ops in folder.glob(f"{depth}/ops_perf_results*.csv"):
            stamp = _STAMP.match(ops.parent.name)
            if stamp or ops.parent.parent.name == "reports":
                found[ops.parent] = stamp.group() if stamp else "", ops.stat().st_mtime
    return sorted(found, key=lambda report: found[report])


def _which(text: str) -> Caveat:
    return Caveat("one-of-several", text)


def read_facts(folder: Path) -> tuple[dict[str, Any], tuple[Caveat, ...]]:
    """What run.json says, empty without one; and what is wrong with it.

    Raises:
        NothingMeasured: it is there, and this user may not read it: it may say that what was timed
            is not the step.
    """
    path = folder / "run.json"
    if not path.is_file():
        return {}, ()
    try:
        facts = read(path)
    except (Unfit, ValueError) as error:
        problem = f"cannot be read ({error})"
    except OSError as error:
        raise NothingMeasured(
            f"{path}: cannot be read: {error.strerror}",
            "See who may read it (ls -l) and have its owner open it, or give another run.",
        ) from error
    else:
        if isinstance(facts, dict):
            return well_formed(facts), ()
        problem = "is not an object"
    return {}, (Caveat("run-json", f"run.json {problem}; its facts are missing."),)


def well_formed(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Facts of a run without those that are not what a reader takes them for."""
    return {
        key: well_formed(value) if key == "environment" and isinstance(value, dict) else value
        for key, value in sound(facts, _SHAPES).items()
    }


def ops_csvs(folder: Path) -> list[Path]:
    """The one that a run was analysed by, else those of a Tracy report folder."""
    picked = folder / "tracy_perf" / "ops_perf_results.csv"
    return [picked] if picked.is_file() else sorted(folder.glob("ops_perf_results*.csv"))


def _torch_csv(folder: Path) -> Path | None:
    path = folder / "torch_profile" / "ops.csv"
    return path if path.is_file() else None
