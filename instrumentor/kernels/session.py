"""The record of an optimisation: each measured version with its text, its times, its verdict.

Everything is on disk after each measurement, so that a session can be left and taken up again.
"""

from __future__ import annotations

import difflib
import hashlib
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta, Struct, field
from msgspec.structs import replace

from instrumentor.kernels.model import shortened
from instrumentor.kernels.trials import Tried
from instrumentor.shared.errors import UsageError
from instrumentor.shared.outputs import write_json
from instrumentor_analysis.shared.documents import converted, parsed, plain
from instrumentor_analysis.shared.files import held, read_bytes, refuse_links, write_below

if TYPE_CHECKING:
    from instrumentor_analysis.compare.ratio import Ratio

SCHEMA = "instrument-kernel-session/1"
FILE = "session.json"
State = Annotated[
    str, Meta(pattern="^(baseline|faster|slower|better|worse|same|traded|unsure|invalid|failed)$")
]
RUNS = "runs"
_ANOTHER = "Name another folder with --session."


class Version(Struct, frozen=True):
    """One state of the kernel's files.

    Attributes:
        state: baseline, faster, slower, unsure (no difference that is sure), invalid or failed;
            better, worse, same or traded where only the simulator's counts are compared.
        sha256: by file name relative to the project.
        wall_us: device time of each run, microseconds.
        change: the first changed line of the diff to the version before, and its size.
        compared: sentence about the interval against the best version before.
        ratio: of the medians, new over best; below 1 is faster.
        validated: whether a validation, or on the simulator the script's own check, found it right;
            None where nothing looked.
        metrics: cores, DRAM traffic, bandwidth, bound; ``simulated``: the simulator's counts.
        problem: why it is invalid or failed.
        tried: edits of one number that were simulated on top of it.
    """

    number: int
    state: State
    sha256: Mapping[str, str]
    wall_us: tuple[Annotated[float, Meta(ge=0)], ...] = ()
    change: str = ""
    compared: str = ""
    ratio: float | None = None
    validated: bool | None = None
    metrics: Mapping[str, Any] = field(default_factory=dict)
    bottleneck: str = ""
    problem: str = ""
    folder: str = ""
    tried: tuple[Tried, ...] = ()

    @property
    def median_us(self) -> float | None:
        """Median of the runs."""
        return statistics.median(self.wall_us) if self.wall_us else None

    @property
    def good(self) -> bool:
        """Whether it may be gone back to."""
        return self.state in ("baseline", "faster", "unsure", "better", "same", "traded")


class Session(Struct, frozen=True):
    """All versions of one kernel, oldest first.

    Attributes:
        settings: what must stay the same for the numbers to be comparable.
    """

    folder: Path
    settings: Mapping[str, Any]
    versions: tuple[Version, ...] = ()

    @property
    def best_version(self) -> Version | None:
        """The fastest version that is surely so: each one is held against the best before it."""
        best = ("baseline", "faster", "better")
        return next((v for v in reversed(self.versions) if v.state in best), None)

    @property
    def best(self) -> int:
        """Number of the best version; 0 before anything was measured."""
        return self.best_version.number if self.best_version else 0

    def add(self, version: Version, texts: Mapping[str, bytes]) -> Session:
        """Append a version with its files' texts, on disk too."""
        self.folder.mkdir(parents=True, exist_ok=True)
        # The texts come first, so that session.json never names a version that cannot be restored.
        keep = self.folder / "versions" / str(version.number)
        for name, data in texts.items():
            write_below(self.folder, keep / name, data)
        return replace(self, versions=(*self.versions, version))._kept()

    def noted(self, version: Version) -> Session:
        """The session with more about its last version."""
        return replace(self, versions=(*self.versions[:-1], version))._kept()

    def _kept(self) -> Session:
        write_json(self.folder / FILE, self.to_json())  # as a whole, or not at all
        return self

    def text_of(self, version: Version, name: str) -> bytes:
        """A file as it was in a version.

        Raises:
            UsageError: it is gone, somebody else's, or behind a link.
        """
        path = self.folder / "versions" / str(version.number) / name
        try:
            with held(self.folder, path.relative_to(self.folder).parent) as place:
                return read_bytes(place / path.name, follow=False, own=True)
        except OSError as error:
            raise UsageError(f"{path}: cannot be read: {error.strerror}", _ANOTHER) from error

    def to_json(self) -> dict[str, Any]:
        """The document `instrument-kernel-session/1`."""
        return {
            "schema": SCHEMA,
            "settings": dict(self.settings),
            "best": self.best,
            "versions": [plain(version) for version in self.versions],
        }


class _Counted(msgspec.Struct):
    dram_bytes: int
    busiest_node_bytes: int
    busiest_node_copies: int
    written_tiles: int = 0


class _Metrics(msgspec.Struct):
    """Of those of a version what its readers take for granted."""

    simulated: _Counted | None = None
    cores_used: int | None = None
    cores_available: int | None = None
    dram_bytes: int | None = None
    bandwidth_gb_s: float | None = None
    bound: str | None = None


class _Saved(msgspec.Struct):
    """What is read of session.json."""

    settings: dict[str, Any]
    versions: tuple[Version, ...]


def _read(file: Path, simulated: bool) -> _Saved:
    """A session that can be gone on with.

    Raises:
        OSError, ValueError, msgspec.MsgspecError: it is none.
    """
    # What stands in it may be put into the user's files.
    found = converted(parsed(read_bytes(file, follow=False, own=True)), _Saved)
    untimed = simulated or any(each.good and not each.wall_us for each in found.versions)
    for number, version in enumerate(found.versions, 1):
        counted = converted(dict(version.metrics), _Metrics).simulated
        if version.number != number or (untimed and version.good and counted is None):
            raise ValueError(f"there is no version {number}")
    return found


def open_session(folder: Path, settings: Mapping[str, Any]) -> Session:
    """A session, taken up again where there is one.

    Raises:
        UsageError: the folder holds something else, or a session with other settings.
    """
    file = folder / FILE
    try:
        for inner in (RUNS, "versions"):
            refuse_links(folder, folder / inner / FILE)
    except OSError as error:
        raise UsageError(f"{error.filename} {error.strerror}", _ANOTHER) from error
    if not file.exists():
        # Runs alone are those of a baseline that could not be measured.
        if folder.is_dir() and any(entry.name != RUNS for entry in folder.iterdir()):
            raise UsageError(f"{folder} holds no session", _ANOTHER)
        return Session(folder, settings)
    try:
        found = _read(file, settings.get("mode") == "simulated")
    except (OSError, ValueError, msgspec.MsgspecError) as error:
        raise UsageError(f"{file}: cannot be read: {error}", _ANOTHER) from error
    before = found.settings
    other = [name for name, value in settings.items() if before.get(name) != value]
    if other:
        raise UsageError(
            f"{file}: was started with another {other[0]}: {before.get(other[0])!r}, now "
            f"{settings[other[0]]!r}",
            "The times cannot be compared: start a new session with --session DIR.",
        )
    return Session(folder, settings, found.versions)


def held_against(old: Version, new: Version) -> tuple[Ratio, str] | None:
    """Time of a version over another's, and the sentence on it; None where one took no time."""
    from instrumentor_analysis.compare.ratio import ratio_of_medians
    from instrumentor_analysis.compare.statement import statement

    ratio = ratio_of_medians(old.wall_us, new.wall_us)
    if ratio is None:
        return None
    said = statement(ratio, f"version {new.number}", len(old.wall_us), len(new.wall_us))
    # The sentence is one about training steps; here each sample is a run.
    return ratio, said.replace("steady steps", "runs")


#: Of the simulator's counts the one that must not fall.
WRITTEN = "written_tiles"
#: The others in words.
_COUNTS = {
    "dram_bytes": "DRAM traffic",
    "busiest_node_bytes": "bytes of the busiest node",
    "busiest_node_copies": "its copies",
}


def counted_against(old: Version, new: Version) -> tuple[str, str]:
    """The state of a version by the simulator's counts against another's, and why.

    Better is less of one and more of none: how much a trade is worth only a device tells. Less of
    what is to be written is no version of the same kernel.
    """
    before, after = old.metrics["simulated"], new.metrics["simulated"]
    lost = before.get(WRITTEN, 0) - after.get(WRITTEN, 0)
    if lost > 0:
        return "failed", f"{lost:,} of the {before[WRITTEN]:,} tiles written before are left out"
    changed = [name for name in _COUNTS if before[name] != after[name]]
    less = [after[name] < before[name] for name in changed]
    times = [
        f"{_COUNTS[name]} {after[name] / before[name]:.3g}x" if before[name] else _COUNTS[name]
        for name in changed
    ]
    state = "traded" if len(set(less)) > 1 else "better" if any(less) else "worse"
    state = state if less else "same"
    said = ", ".join(times) or "the same traffic, balance and copies"
    return state, f"{said} (simulated: counts, no times)"


def digests(texts: Mapping[str, bytes]) -> dict[str, str]:
    """SHA-256 of each file's bytes."""
    return {name: hashlib.sha256(data).hexdigest() for name, data in texts.items()}


def described_change(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> str:
    """What changed between two versions: lines added and removed, and the first of them."""
    added: list[str] = []
    removed = 0
    for name, data in after.items():
        texts = (before.get(name, b""), data)
        old, new = (text.decode("utf-8", "replace").splitlines() for text in texts)
        diff = [*difflib.unified_diff(old, new, n=0)][2:]  # behind the names of the files
        added += [line[1:].strip() for line in diff if line.startswith("+")]
        removed += sum(line.startswith("-") for line in diff)
    if not added and not removed:
        return "nothing"
    first = shortened(next(filter(None, added), ""), 60)
    return f"+{len(added)} -{removed} lines" + (f": {first}" if first else "")
