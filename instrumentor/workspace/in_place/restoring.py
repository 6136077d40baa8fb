"""Puts swapped files back, from whatever state a kill, a full disk or a power loss left them in.

What a file holds decides, never how far the run had come: the original's bytes, the instrumented
ones, or something else, which is then the user's and is not touched.
"""

from __future__ import annotations

import dataclasses
import os
import shlex
import stat
from collections.abc import Container
from pathlib import Path
from typing import Literal

from msgspec.structs import replace

from instrumentor.shared.errors import InstrumentError, NotReady, Restored, RestoreNeeded
from instrumentor.shared.outputs import numbered
from instrumentor.workspace import git
from instrumentor.workspace.in_place import journal
from instrumentor.workspace.in_place.disk import Disk
from instrumentor.workspace.in_place.journal import Entry, Journal
from instrumentor_analysis.shared.files import Unfit, read_bytes

#: The location of a journal without a file: nothing can ever be there.
NO_FILE = Path(os.devnull, "journal.json")
#: Of one repository; each takes several calls of git, and anybody can bring thousands.
MOST_REFS = 50


def restore(folder: Path | None = None, disk: Disk | None = None) -> tuple[Restored, ...]:
    """Put back what in-place runs left behind when they were killed.

    Args:
        folder: also look into the repository around this folder, for journals whose cache
            folder is gone, or is not the one in use now.
        disk: how files are changed.

    Returns:
        one record for each file; empty when there is nothing to do. Files of living runs are
        listed and left alone.

    Raises:
        RestoreNeeded: a file was edited during its run, or could not be put back; everything else
            has been done, and ``error.restored`` holds the records.
    """
    disk = disk or Disk()
    done: list[Restored] = []
    seen: set[str] = set()
    for location in journal.pending():
        seen.add(location.stem)
        done += _from_cache(location, disk)
    if folder is not None and folder.is_dir():
        try:
            done += _from_repository(folder, seen, disk)
        except NotReady as error:
            told = f"no refs of runs in place could be looked for in {folder}: {error.message}"
            done.append(Restored(folder, "failed", f"{told}. {error.hint}"))
    check(done)
    return tuple(done)


def _from_repository(folder: Path, seen: Container[str], disk: Disk) -> list[Restored]:
    """Fulfil the journals that the repository around a folder keeps.

    Args:
        seen: the ids of those that are done.

    Raises:
        NotReady: git does not accept the repository, or cannot list its refs.
    """
    repository = journal.repository_around(folder)
    if repository is None:
        return []
    sound = (ref for ref in journal.refs(repository) if ref.rpartition("/")[2] not in seen)
    damaged = (path for path in journal.damaged(repository) if path.name not in seen)
    unseen: list[str | Path] = [*sound, *damaged]
    done: list[Restored] = []
    for each in unseen[:MOST_REFS]:
        if isinstance(each, Path):
            done.append(_damaged(each, folder))
        else:
            done += _from_ref(each, repository, disk)
    if len(unseen) > MOST_REFS:
        told = f"{repository} holds {len(unseen):,} refs under {journal.REFS}, more than any run"
        done.append(Restored(repository, "failed", f"{told}: {MOST_REFS} were looked at"))
    return done


def check(done: list[Restored] | tuple[Restored, ...]) -> None:
    """Raise RestoreNeeded when something needs the user."""
    bad = [each for each in done if each.action in ("kept-both", "failed")]
    if not bad:
        return
    hint = "Compare the versions and keep the one you want."
    if any(each.action == "failed" for each in bad):
        hint = "Fix that, then run: instrument restore"
    error = RestoreNeeded("; ".join(each.text for each in bad), hint)
    error.restored = tuple(done)
    raise error


def _from_cache(location: Path, disk: Disk) -> list[Restored]:
    try:
        with journal.taken(location) as found:
            if found is not None:
                return fulfil(found, disk)
            return _living(location)
    except RestoreNeeded as error:
        return [Restored(location, "failed", f"{location}: {error.message}")]


def _from_ref(ref: str, repository: Path, disk: Disk) -> list[Restored]:
    """Fulfil a journal by its text in git; its file, where there is one, is of another cache."""
    try:
        found = journal.kept(repository, ref)
    except (RestoreNeeded, NotReady) as error:
        return [Restored(repository, "failed", f"{_asked(ref, repository)}: {error.message}")]
    if _is_own_file(found.location) and found.location.name == f"{found.id}.json":
        try:
            with journal.taken(found.location) as held:
                if held == found:
                    return _as_asked(found, repository, disk)
                if held is None:  # another process is putting it back
                    return _running(found)
        except RestoreNeeded:
            pass
    if journal.run_is_alive(found):
        return _running(found)
    # What stands at the location is not this journal: a repository may name any file there.
    return _as_asked(replace(found, location=NO_FILE), repository, disk)


def _damaged(ref: Path, folder: Path) -> Restored:
    """What to do about a ref of ours that tells nothing any more, in the repository around."""
    if not ref.name.isprintable():
        return Restored(ref, "failed", f"{str(ref)!a} is no ref that git can read: no run made it")
    top = git.folder_of(folder, "--show-toplevel")
    seek = shlex.join(["find", str(top), "-name", f".instrument-{ref.name}-*"])
    text = (
        f"{ref} is damaged, so that git passes over it: it does not tell any more which files a "
        f"killed run left instrumented; the original of each lies beside it ({seek}); when none "
        f"is left: {shlex.join(['rm', str(ref)])}"
    )
    return Restored(ref, "failed", text)


def _asked(ref: str, repository: Path) -> str:
    if not ref.isprintable():  # no command that looks like another one
        return f"{ref!a} of {repository}, which no run made"
    command = ["git", "--git-dir", str(repository), "update-ref", "--no-deref", "-d", ref]
    remove = shlex.join(command)
    return f"{ref} of {repository}, which no run of this user's cache knows ({remove} removes it)"


def _as_asked(found: Journal, repository: Path, disk: Disk) -> list[Restored]:
    """Fulfil what a repository may ask for: that its own tracked files, instrumented, go back."""
    sound: list[Entry] = []
    refused: list[Restored] = []
    for entry in found.entries:
        why = journal.unfounded(entry, repository) or _unlike(entry)
        if why:
            text = f"{entry.path} {why}: it is left as it is, asked for by "
            refused.append(Restored(entry.path, "failed", text + _asked(found.ref, repository)))
        else:
            sound.append(_as_it_stands(entry))
    if sound:
        refused = fulfil(replace(found, entries=tuple(sound)), disk) + refused
    return refused


def _as_it_stands(entry: Entry) -> Entry:
    """With the file's own mode, which is the original's: one from outside is not taken."""
    facts = entry.path.lstat()
    stands = state(entry, entry.path) == "original"
    mtime_ns = facts.st_mtime_ns if stands else entry.mtime_ns
    return replace(entry, mode=stat.S_IMODE(facts.st_mode), mtime_ns=mtime_ns)


def _unlike(entry: Entry) -> str:
    """Why a file does not hold what a run in place left in it; empty when it does."""
    stands = state(entry, entry.path)
    if stands in ("instrumented", "original"):
        return ""
    told = "is gone" if stands == "missing" else "holds something else than the instrumented text"
    return f"{told}; for the original: {journal.shown_by(entry)}"


def _is_own_file(path: Path) -> bool:
    try:
        facts = path.lstat()
    except OSError:
        return False
    return stat.S_ISREG(facts.st_mode) and facts.st_uid == os.getuid()


def _living(location: Path) -> list[Restored]:
    try:
        return _running(journal.read(location))
    except OSError:  # closed meanwhile
        return []


def _running(found: Journal) -> list[Restored]:
    text = f"is instrumented by a run that is alive (process {found.pid})"
    return [Restored(e.path, "running", f"{e.path} {text}") for e in found.entries]


def fulfil(found: Journal, disk: Disk) -> list[Restored]:
    """Put back every file of a journal whose lock is held; close it unless one failed."""
    done = [_guarded(entry, disk) for entry in found.entries]
    if any(each.action == "failed" for each in done):
        # The journal stays: a later start tries again, unless the user gives up on it.
        return [_with_a_way_out(each, found.location) for each in done]
    try:
        journal.close(found, disk)
    except (InstrumentError, OSError) as error:
        told = f"{error.message}. {error.hint}" if isinstance(error, InstrumentError) else error
        text = f"{found.location}: the journal cannot be removed: {told}"
        done.append(Restored(found.location, "failed", text))
    return done


def _with_a_way_out(each: Restored, location: Path) -> Restored:
    """What failed may never succeed: the project is gone. Git's ref keeps the original."""
    if each.action != "failed" or location == NO_FILE:
        return each
    give_up = shlex.join(["rm", str(location)])
    return dataclasses.replace(each, text=f"{each.text}; to give up on it: {give_up}")


def _guarded(entry: Entry, disk: Disk) -> Restored:
    try:
        return _restore(entry, disk)
    except (OSError, InstrumentError) as error:
        return Restored(entry.path, "failed", _what_failed(entry, error))


def _what_failed(entry: Entry, error: OSError | InstrumentError) -> str:
    """What of a file is not as it was before the run, which may be anything but its bytes."""
    reason = str(error)
    if isinstance(error, OSError):
        reason = f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror)
    try:
        stands = state(entry, entry.path)
    except OSError:  # the folder is closed
        stands = "other"
    if stands == "original":
        return f"{entry.path} holds its original, but not all of the run could be undone: {reason}"
    return (
        f"{entry.path} could not be put back: {reason}; its original is git's blob {entry.blob} "
        f"({journal.shown_by(entry)})"
    )


def _restore(entry: Entry, disk: Disk) -> Restored:
    folder = entry.path.parent
    if not folder.is_dir():
        raise NotReady(f"the folder {folder} is gone")
    foreign = journal.foreign(entry)
    if foreign:
        raise NotReady(f"it {foreign}")
    if os.path.lexists(entry.part):  # half-written; whatever is whole has another name
        disk.remove(entry.part)
    kept = _set_aside_foreign(entry, disk)
    before = state(entry, entry.path)
    elsewhere = _elsewhere(entry, before)
    how = ""
    if before in ("instrumented", "missing"):
        how = _how(entry)
        _put_back(entry, disk, before)
        kept += _set_aside_foreign(entry, disk)  # saved in the very moment of the exchange
    elif before == "other":
        kept += (_keep_original(entry, disk),)
    _remove_ours(entry, disk)
    if before == "other" or kept:
        names = ", ".join(map(str, kept))
        return Restored(
            entry.path,
            "kept-both",
            f"{entry.path} was edited during the run; both versions are kept: it, and {names}",
            kept,
            elsewhere,
        )
    stamped = _stamp(entry, disk)
    _verify(entry)
    if before == "original" and not stamped and not elsewhere:
        return Restored(entry.path, "unchanged", f"{entry.path} is as it was before the run")
    text = f"{entry.path} is restored, as it was before the run{how}"
    text += f"; {elsewhere}" if elsewhere else ""
    return Restored(entry.path, "restored", text, elsewhere=elsewhere)


def _how(entry: Entry) -> str:
    """What git's bytes do not bring back with them; empty where the file itself is at hand."""
    if any(state(entry, path) == "original" for path in (entry.side, entry.aside)):
        return ""
    return (
        ", but for owner, access lists and extended attributes:"
        " its own file was gone, and its bytes are from git"
    )


def _elsewhere(entry: Entry, before: State) -> str:
    """Where the instrumented text stays although the file is put back; empty for nowhere."""
    found = []
    if entry.instrumented_blob and journal.holds(entry.instrumented_blob, entry.repository):
        seek = ["git", "log", "--all", f"--find-object={entry.instrumented_blob}"]
        found.append(f"in git, committed, stashed or staged during the run ({shlex.join(seek)})")
    if before == "instrumented" and entry.path.lstat().st_nlink > 1:
        found.append("under another name (a hard link)")
    return f"its instrumented text stays {' and '.join(found)}" if found else ""


State = Literal["original", "instrumented", "missing", "other"]


def state(entry: Entry, path: Path) -> State:
    """What stands at a path."""
    try:
        facts = path.lstat()
    except FileNotFoundError:
        return "missing"
    if not stat.S_ISREG(facts.st_mode):
        return "other"
    try:
        found = journal.digest(read_bytes(path, follow=False))
    except Unfit:  # exchanged since, or larger than any script
        return "other"
    if found == entry.sha256:
        return "original"
    return "instrumented" if found == entry.instrumented_sha256 else "other"


def _put_back(entry: Entry, disk: Disk, before: State) -> None:
    source = _original(entry, disk)
    if before == "missing":
        # Unlike a rename, it fails when the user has made the file meanwhile.
        disk.link(source, entry.path)
    else:
        disk.swap(source, entry.path)
    disk.sync_folder(entry.path.parent)


def _original(entry: Entry, disk: Disk) -> Path:
    """The original's own file where it is at hand and holds what git holds, else git's bytes."""
    for path in (entry.side, entry.aside):
        if state(entry, path) == "original":
            return path
    _remove_ours(entry, disk)
    data = journal.load(entry.blob, entry.repository)
    if journal.digest(data) != entry.sha256:
        raise NotReady(f"git's blob {entry.blob} holds other bytes than the original")
    disk.write(entry.part, data, entry.mode)
    disk.sync(entry.part)
    disk.rename(entry.part, entry.side)
    disk.sync_folder(entry.path.parent)
    return entry.side


def _set_aside_foreign(entry: Entry, disk: Disk) -> tuple[Path, ...]:
    """Give what is neither version a name of its own: the user saved during an exchange."""
    found = (entry.side, entry.aside)
    return tuple(_beside(entry, p, "edited", disk) for p in found if state(entry, p) == "other")


def _keep_original(entry: Entry, disk: Disk) -> Path:
    source = _original(entry, disk)
    disk.stamp(source, entry.mode, entry.mtime_ns)
    return _beside(entry, source, "before-instrument", disk)


def _beside(entry: Entry, source: Path, ending: str, disk: Disk) -> Path:
    """Give a file of ours a name beside the user's file that is free."""
    names = numbered(entry.path.with_name(f"{entry.path.name}.{ending}"))
    target = next(path for path in names if not os.path.lexists(path))
    disk.rename(source, target)
    disk.sync_folder(target.parent)
    return target


def _remove_ours(entry: Entry, disk: Disk) -> None:
    for path in (entry.side, entry.aside):
        # By what they hold, not by their names: the user's own text is never removed.
        if state(entry, path) in ("original", "instrumented"):
            disk.remove(path)
            disk.sync_folder(path.parent)


def _stamp(entry: Entry, disk: Disk) -> bool:
    facts = entry.path.stat()
    wanted = entry.mode, entry.mtime_ns
    if (stat.S_IMODE(facts.st_mode), facts.st_mtime_ns) == wanted:
        return False
    disk.stamp(entry.path, entry.mode, entry.mtime_ns)
    disk.sync(entry.path)
    return True


def _verify(entry: Entry) -> None:
    facts = entry.path.lstat()
    if state(entry, entry.path) != "original":
        raise NotReady("its bytes are not those of before the run")
    if (stat.S_IMODE(facts.st_mode), facts.st_mtime_ns) != (entry.mode, entry.mtime_ns):
        raise NotReady("its mode or its modification time could not be set back")
