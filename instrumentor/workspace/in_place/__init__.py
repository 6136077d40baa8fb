"""For scripts that cannot run from a copy: the instrumented text stands in the file itself.

In: instrumented bytes and their originals; out: the user's files changed for the run, then
restored.

The original's bytes go into git first and a journal names them; the file is exchanged in one step;
after the body, or at the next start when this process was killed, it is put back and verified.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from instrumentor.shared.errors import InstrumentError, NotReady
from instrumentor.shared.project import Project
from instrumentor.workspace import git, slots
from instrumentor.workspace.in_place import journal
from instrumentor.workspace.in_place.disk import Disk
from instrumentor.workspace.in_place.interrupts import Interrupts
from instrumentor.workspace.in_place.journal import Entry
from instrumentor.workspace.in_place.restoring import check, fulfil, state
from instrumentor.workspace.run_location import Workspace
from instrumentor_analysis.shared.files import read_bytes


@contextmanager
def in_place(
    project: Project,
    script: Path,
    cwd: Path,
    originals: Mapping[Path, bytes],
    replacements: Mapping[Path, bytes],
    disk: Disk | None = None,
) -> Iterator[Workspace]:
    """Let the instrumented text stand in the user's files during the body.

    Args:
        script: relative to ``cwd``, the user's working folder.
        originals: bytes of the files as they were read.
        replacements: instrumented text by the file whose place it takes.

    Raises:
        Declined: a file is outside git, or has several names.
        NotReady: it is no plain file, git, the journal or the folder cannot be written, or the
            file has changed since it was read.
        RestoreNeeded: at the end: it was edited during the run, or could not be put back.
    """
    disk = disk or Disk()
    interrupts = Interrupts()
    with slots.acquired(project.root) as slot, interrupts.taken():
        texts = {path.resolve(): text for path, text in replacements.items()}
        files = {path.resolve(): data for path, data in originals.items() if path in replacements}
        entries = tuple(inspect(path, files[path], texts[path], disk) for path in files)
        record = journal.new(entries, project.root)
        site = Workspace(project, slot, project.root, cwd, cwd / script, tuple(files))
        with journal.written(record, disk):
            try:
                with interrupts.put_off():
                    journal.hold(record, disk)
                    for entry in record.entries:
                        put(entry, texts[entry.path], disk)
                yield site
            finally:
                with interrupts.put_off():
                    site.restored.extend(fulfil(record, disk))
                check(site.restored)


def inspect(path: Path, data: bytes, text: bytes, disk: Disk) -> Entry:
    """Look at a file that is to be swapped, and give its bytes to git.

    Args:
        data: its bytes when it was read for the plan.
        text: the instrumented bytes.

    Raises:
        Declined: it is outside git, or has several names.
        NotReady: it is no regular file, its folder or git cannot be written, or it has changed
            since it was read.
    """
    facts = path.lstat()
    if not stat.S_ISREG(facts.st_mode):
        raise NotReady(f"{path} is not a regular file", "Run it without --in-place.")
    if facts.st_nlink > 1:
        raise _declined("HardLinked", path, count=facts.st_nlink)
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise NotReady(
            f"{path.parent} cannot be written: a file in it cannot be replaced",
            "Make the folder writable, or run without --in-place.",
        )
    repository = _repository(path)
    # The plan was made from these bytes: with others it would edit the wrong lines.
    if read_bytes(path) != data:
        raise NotReady(f"{path} was changed while the run began", "Run again.")
    return Entry(
        path=path,
        repository=repository,
        blob=journal.store(path, data, repository, disk),
        sha256=journal.digest(data),
        instrumented_sha256=journal.digest(text),
        mode=stat.S_IMODE(facts.st_mode),
        mtime_ns=facts.st_mtime_ns,
        stem="",
        instrumented_blob=journal.name_of(text, repository),
    )


def _repository(path: Path) -> Path:
    found, why = None, "cannot be kept: there is no git program"
    if git.available():
        try:
            found = git.common_folder(path.parent)
        except NotReady as error:
            hint = f"Run without --in-place, or mend the repository. {error.hint}"
            raise NotReady(error.message, hint) from error
        why = "is in no git repository, which would keep the original"
    if found is None:
        raise _declined("OutsideGit", path, why=why)
    return found


def put(entry: Entry, text: bytes, disk: Disk) -> None:
    """Exchange the file for the instrumented text; the original is beside it afterwards."""
    try:
        # Beside the file: only within one file system is a rename a single step.
        disk.write(entry.part, text, entry.mode)
        disk.sync(entry.part)
        disk.rename(entry.part, entry.side)
        disk.sync_folder(entry.path.parent)
        disk.swap(entry.side, entry.path)
        disk.sync_folder(entry.path.parent)
        # An editor may have saved since the last look: what came out tells.
        if state(entry, entry.side) != "original":
            disk.swap(entry.side, entry.path)
            raise NotReady(f"{entry.path} was changed while the run began", "Run again.")
    except OSError as error:
        raise NotReady(
            f"{entry.path} cannot be replaced: {error.strerror}",
            "Remove the cause, or run without --in-place.",
        ) from error


def _declined(which: str, path: Path, **words: object) -> InstrumentError:
    from instrumentor.locate.located import Declined
    from instrumentor.locate.rules import in_place

    return Declined(getattr(in_place, which).of(path, name=path.name, **words))
