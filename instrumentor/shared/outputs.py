"""Files that a user gets: whole or not at all, and never over one that exists unasked."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from instrumentor.shared.errors import UsageError
from instrumentor.shared.option_fields import OUTPUT, option
from instrumentor.shared.private import throwaway
from instrumentor_analysis.shared.files import RUNS_FOLDER, Unfit, copy, created, held, write_whole

# What a run folder's reports are made from; a folder stands for all that is in it.
_RECORDS = frozenset(
    {"run.json", "plan.json", "summary.json", "files", "tracy_profile", "torch_profile", "trials"}
    | {"tracy_perf/ops_perf_results.csv", "profile_log_device.csv"}
)


#: The record of runs of two versions in pairs, in their folder.
PAIRS = "pairs.json"
#: Of folders for runs: writable to the group as the umask says, to everybody never.
_MODE = 0o775
#: What a tuning found, in its folder.
TUNING = "tune.json"


@dataclass(frozen=True)
class Replacing:
    """Whether files that are there may be replaced."""

    force: bool = option(OUTPUT, False, "Replace existing output files.", once=True)


def refuse_misplaced(paths: Iterable[Path | None]) -> None:
    """Before the work: places that cannot be written to, or that would overwrite each other.

    Raises:
        UsageError: the folder of an output does not exist, or two outputs share a place.
    """
    every = [path for path in paths if path is not None]
    # Resolved: one file may be reached by two names.
    places = [Path(os.path.realpath(path)) for path in every]
    own = "Give each output a place of its own."
    for at, (path, place) in enumerate(zip(every, places, strict=True)):
        if place in places[:at]:
            raise UsageError(f"two outputs would go to {path}", own)
        for other, outer in zip(every, places, strict=True):
            if outer in place.parents:
                raise UsageError(f"{path} would lie in {other}, another output", own)
    for folder in (path.parent for path in every):
        if not folder.is_dir():
            if folder.exists():
                raise UsageError(f"{folder}: not a folder", "Give another place.")
            make = f"mkdir -p {shlex.quote(str(folder))}"
            raise UsageError(f"{folder}: no such folder", f"Create it first: {make}")


def refuse_outputs(
    paths: Iterable[Path | None], sources: Iterable[Path] = (), *, force: bool
) -> None:
    """Before the work: half a minute of it is no way to find that out.

    Args:
        sources: files and folders that are read.
        force: files that are there may be replaced; never a source, a record of a run, a device, a
            pipe or a link.

    Raises:
        UsageError: a file is there, or a folder that is not empty; or as :func:`refuse_misplaced`.
    """
    every = [path for path in paths if path is not None]
    refuse_misplaced(every)
    read = [Path(os.path.realpath(source)) for source in sources]
    for path in every:
        _refuse_kept(path, read)
        _refuse_no_file(path)
        if not force and (any(path.iterdir()) if path.is_dir() else path.exists()):
            raise exists(path)


def _refuse_kept(path: Path, sources: Iterable[Path] = ()) -> None:
    """An output must not take the place of what it, or any later report, is made from."""
    place = Path(os.path.realpath(path))
    if any(place == source or place in source.parents for source in sources):
        raise UsageError(f"{path} is an input", "Give the output another name.")
    for folder in place.parents:
        is_run = any((folder / name).is_file() for name in ("run.json", "timings.jsonl"))
        if is_run and place.exists() and _is_record(place.relative_to(folder)):
            raise UsageError(
                f"{path} is a record of the run in {folder}", "Give the output another name."
            )


def _refuse_no_file(path: Path) -> None:
    """A device, a pipe or a link is nothing that a file may take the place of, forced or not."""
    with contextlib.suppress(FileNotFoundError):
        if not path.is_dir() and not stat.S_ISREG(path.lstat().st_mode):
            raise UsageError(f"{path} is not a regular file", "Give the output another name.")


def _is_record(name: Path) -> bool:
    """Whether a file of a run folder cannot be made again from the others."""
    recorded = name.suffix in (".jsonl", ".log", ".diff", ".tracy")
    return recorded or name.parts[0] in _RECORDS or name.as_posix() in _RECORDS


def exists(path: Path) -> UsageError:
    """The error of an output that is there already."""
    return UsageError(f"{path} exists", "Give another name, or --force to replace it.")


def write_new(path: Path, data: bytes, *, force: bool) -> None:
    """Write a file as a whole, or not at all.

    Raises:
        UsageError: it exists (without force), is a record of a run or no regular file, or cannot
            be written.
    """
    _refuse_kept(path)
    _refuse_no_file(path)
    if path.exists() and not force:
        raise exists(path)
    try:
        write_whole(path, data, replace=force)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from error


def write_json(path: Path, value: object) -> None:
    """Write a JSON file of a folder of ours as a whole, over its earlier state."""
    write_whole(path, (json.dumps(value, indent=2) + "\n").encode())


def run_folder(cwd: Path, asked: Path | None, name: str, first: str, content: bytes = b"") -> Path:
    """A new folder for a run.

    Args:
        cwd: where the run was started.
        asked: the folder asked for; new or empty, or it is an error (:func:`refuse_taken`).
        name: else the folder is ``instrument-runs/NAME-N``, in a place that git ignores.
        first: name of the file that says whose folder it is. Made here with this ``content``, so
            that of two runs that start in one moment each has a folder of its own.

    Raises:
        UsageError: it cannot be made, or is taken.
    """
    if asked is not None:
        refuse_taken(cwd, asked)
        # Nothing else: who named the folder reads the results there, a job of CI at least.
        found = _first_free([cwd / asked], first, content)
        if found is None:  # by another run in this moment
            raise _taken(asked)
        return found
    place = cwd / RUNS_FOLDER
    if place.is_symlink():  # it may have come with the project
        raise UsageError(
            f"{place} is a symbolic link: no run is put where it leads",
            "Remove the link, or name the folder: --output DIR.",
        )
    try:
        place.mkdir(_MODE, parents=True, exist_ok=True)
        _refuse_exchangeable(place)
        with contextlib.suppress(FileExistsError), created(place / ".gitignore") as stream:
            stream.write(b"*\n")
    except OSError as error:
        raise _not_made(place, error) from error
    # Not the first free number: the highest one is the newest run, also after one was removed.
    taken = (path.name.removeprefix(f"{name}-") for path in place.glob("*"))
    newest = max((int(number) for number in taken if number.isdecimal()), default=0)
    found = _first_free((place / f"{name}-{n}" for n in count(newest + 1)), first, content)
    assert found is not None, "numbers do not end"
    return found


def _refuse_exchangeable(place: Path) -> None:
    """Refuse a place for runs whose owner could put a link in the place of one while it is written.

    Whoever owns the folder around it can do that anyway, and is whom the user works for there.

    Raises:
        UsageError: it belongs to another user than this one, root and that owner.
    """
    owner = place.lstat().st_uid
    if owner not in {os.geteuid(), 0, place.parent.stat().st_uid}:
        raise UsageError(
            f"{place} belongs to another user ({owner}), who could exchange what is written there",
            "Name a folder of your own: --output DIR.",
        )


def refuse_taken(cwd: Path, asked: Path | None) -> None:
    """Before the work: a folder asked for that holds something is not written into.

    Raises:
        UsageError: it is not empty, or is no folder.
    """
    if asked is None:
        return
    place = cwd / asked
    if place.exists() and not place.is_dir():
        raise UsageError(f"{asked}: not a folder", "Give another place.")
    with contextlib.suppress(OSError):  # what it is cannot be read: making it says so
        if place.is_dir() and any(place.iterdir()):
            raise _taken(asked)


def _taken(asked: Path) -> UsageError:
    """The error of a folder for a run that holds something already."""
    return UsageError(
        f"{asked} is not empty: a run does not go where another one or other files are",
        "Name a new folder, or none: each run then has a new one in instrument-runs.",
    )


def are_pairs(folder: Path) -> bool:
    """Whether a folder holds runs of two versions in pairs."""
    return (folder / PAIRS).is_file()


def new_below(folder: Path, name: str) -> Path:
    """A new folder in one of ours, of this name or with -2, -3 ... behind it, and behind no link.

    Raises:
        OSError: it cannot be made, or a link would lead it elsewhere.
    """
    wanted = folder / name
    with held(folder, Path(name).parent, make=True) as place:
        made = next(each for each in numbered(place / wanted.name) if not os.path.lexists(each))
        made.mkdir()
    return wanted.with_name(made.name)


@contextlib.contextmanager
def filled_below(folder: Path, name: str) -> Iterator[tuple[Path, Path]]:
    """A new folder in one that may be somebody else's, for programs that write by name.

    Gives an empty folder where nobody else can put anything, and the place that has what is in it
    afterwards; none where that is nothing.

    Raises:
        NotReady: there is no such folder.
        OSError: the place cannot be made or filled, or was exchanged.
    """
    place = new_below(folder, name)
    with held(folder, Path(place.name)) as there, throwaway() as ours:
        if there.stat().st_uid != os.geteuid() or any(there.iterdir()):
            raise Unfit(place, "was exchanged while it was made")
        (ours / name).mkdir()
        try:
            yield ours / name, place
        finally:
            shutil.copytree(
                ours / name, there, symlinks=True, copy_function=_copy_file, dirs_exist_ok=True
            )
            if not any(there.iterdir()):
                with contextlib.suppress(OSError):
                    place.rmdir()


def _copy_file(source: str, target: str) -> None:
    copy(source, Path(target))


def mark_latest(folder: Path) -> None:
    """Let ``instrument-runs/latest`` lead to a run that lies beside it."""
    latest = folder.with_name("latest")
    if folder.parent.name != RUNS_FOLDER or (latest.exists() and not latest.is_symlink()):
        return
    link = folder.with_name(f".latest-{os.getpid()}")
    # A convenience: some file systems have no links.
    with contextlib.suppress(OSError):
        link.symlink_to(folder.name)
        link.replace(latest)


def remove_run_folder(folder: Path) -> None:
    """Remove an empty folder of a run, and the place of all runs if it was the only one."""
    folder.rmdir()
    place = folder.parent
    if place.name == RUNS_FOLDER and [path.name for path in place.iterdir()] == [".gitignore"]:
        (place / ".gitignore").unlink()
        place.rmdir()


def _first_free(folders: Iterable[Path], first: str, content: bytes) -> Path | None:
    """The first that did not exist yet, or was empty, with its first file in it."""
    for folder in folders:
        try:
            folder.mkdir(_MODE, parents=True, exist_ok=True)
            if not any(folder.iterdir()):
                with created(folder / first) as stream:
                    stream.write(content)
                return folder
        except FileExistsError:
            continue
        except OSError as error:
            raise _not_made(folder, error) from error
    return None


def _not_made(folder: Path, error: OSError) -> UsageError:
    return UsageError(f"{folder}: cannot be made: {error.strerror}", "Give --output DIR.")


def numbered(path: Path, suffix: str = "") -> Iterator[Path]:
    """The path, then the same with -2, -3 ... behind it, or before its suffix."""
    yield path
    for number in count(2):
        yield path.with_name(f"{path.name.removesuffix(suffix)}-{number}{suffix}")
