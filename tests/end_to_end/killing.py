"""Many kills and many edits at random moments of runs: what is lost, lives on or is left is told.

Outside of the suite, for as many as one has time for::

    python -m tests.end_to_end.killing --kills 500 --edits 250

Moments are drawn over the length that a run has on this machine, measured first. A kill is SIGKILL
to the tool, half of the runs in place, half in a copy. An edit is one of the user's own script
while it runs in place, written into the file or put in its place as editors do; every third one is
followed by a kill. Ends with code 1 if a byte was lost, a process lives on or anything is left.

With ``--core`` the run is the part alone that changes the user's file and puts it back, in place,
with git and the journal: what there is to lose is the same, and a round takes a tenth of the time.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path

from instrumentor.shared.errors import InstrumentError, RestoreNeeded
from instrumentor.shared.project import find_project
from instrumentor.workspace.in_place import in_place
from instrumentor.workspace.in_place.restoring import restore
from instrumentor.workspace.slots import sweep
from tests import forked
from tests.end_to_end.small import processes_with, snapshot
from tests.end_to_end.test_kills import SOURCE, kept, leftovers

LIMIT_S = 300.0


class Runs:
    """A repository, and runs in it that are started without importing the tool anew."""

    def __init__(self, folder: Path) -> None:
        self.context = forked.server()
        self.folder, self.repo, self.cache = folder, folder / "repo", folder / "cache"
        for name in ("repo", "tmp", "out"):
            (folder / name).mkdir()
        os.environ.update(
            INSTRUMENT_CACHE=str(self.cache),
            XDG_DATA_HOME=str(folder / "data"),
            TMPDIR=str(folder / "tmp"),
            GIT_CONFIG_GLOBAL=os.devnull,
        )
        self.write("train.py", SOURCE.encode())
        self.write("other.py", b"x = 1\r\n")
        for words in (
            ("init", "-q"),
            ("add", "-A"),
            ("-c", "user.name=T", "-c", "user.email=t@example.invalid", "commit", "-qm", "Start"),
        ):
            subprocess.run(["git", *words], cwd=self.repo, check=True)
        self.write("other.py", b"uncommitted\r\n")
        self.write("notes.txt", b"untracked")
        (self.repo / "train.py").chmod(0o755)
        self.before, self.index = kept(self.repo), self._index()
        self._lasts()  # the first one waits for what starts the others
        self.length_s = max(self._lasts() for _ in range(2))

    def write(self, name: str, data: bytes) -> None:
        """Into a file of the repository."""
        (self.repo / name).write_bytes(data)

    def _index(self) -> bytes:
        return (self.repo / ".git" / "index").read_bytes()

    def _lasts(self) -> float:
        began = time.monotonic()
        with self.started(in_place=True) as tool:
            tool.join(LIMIT_S)
        return time.monotonic() - began

    @contextmanager
    def started(self, *, in_place: bool) -> Iterator[BaseProcess]:
        """A run while it lasts; killed when the body ends before it."""
        out = Path(tempfile.mkdtemp(dir=self.folder / "out"))
        tool = self._tool(out, in_place)
        tool.start()
        try:
            yield tool
        finally:
            tool.kill()
            tool.join(LIMIT_S)
            while processes_with(str(self.cache)):
                time.sleep(0.1)
            shutil.rmtree(out)

    def _tool(self, out: Path, in_place: bool) -> BaseProcess:
        words = ["run", *(["--in-place"] if in_place else []), "--profiler", "wallclock"]
        words += ["--steps", "5", "--no-history", "-o", str(out / "run"), "train.py"]
        streams = [out / "stdout", out / "stderr"]
        given = (words, str(self.repo), dict(os.environ), streams, None)
        return self.context.Process(target=forked._tool, args=given)

    def restored(self) -> int:
        """The next command."""
        done = forked.run(self.context, ["restore"], self.repo, os.environ, LIMIT_S)
        if "Traceback" in done.stderr:
            print(done.stderr, file=sys.stderr)
        return done.returncode

    def unsound(self) -> list[object]:
        """What differs from before all runs, or is left of one."""
        found = leftovers(self.repo, self.cache)
        found += ["index"] if self._index() != self.index else []
        return found + [
            name for name, facts in kept(self.repo).items() if facts != self.before[name]
        ]

    def put_back(self) -> None:
        """The original again, for the next round."""
        for name in snapshot(self.repo):
            if name.startswith("train.py"):
                (self.repo / name).unlink()
        data, mode, mtime_ns = self.before["train.py"]
        self.write("train.py", data)
        (self.repo / "train.py").chmod(mode & 0o7777)
        os.utime(self.repo / "train.py", ns=(mtime_ns, mtime_ns))


class CoreRuns(Runs):
    """Of a run only what changes the user's file, in a process that is forked from this one."""

    def __init__(self, folder: Path) -> None:
        self.forks = get_context("fork")
        super().__init__(folder)

    def _tool(self, out: Path, in_place: bool) -> BaseProcess:
        wait_s = getattr(self, "length_s", 0.0) / 2
        return self.forks.Process(target=exchange_for_a_while, args=(self.repo, wait_s))

    def restored(self) -> int:
        """The next command's first deed."""
        code = 0
        try:
            restore(self.repo)
        except RestoreNeeded:
            code = 5
        sweep(print)
        return code


def exchange_for_a_while(repo: Path, wait_s: float) -> None:
    """A run in place whose script only waits; messages of a kill's git are for nobody."""
    script = repo / "train.py"
    data = script.read_bytes()
    text = data.replace(b"import sys", b"import sys  # _instrument", 1)
    project = find_project(script)
    with suppress(InstrumentError), in_place(project, script, repo, {script: data}, {script: text}):
        time.sleep(wait_s)


def killed(runs: Runs, chance: random.Random, *, in_place: bool) -> tuple[bool, list[object]]:
    """One run that is killed: whether the file was exchanged then, and what went wrong."""
    with runs.started(in_place=in_place) as tool:
        tool.join(chance.uniform(0, 1.02 * runs.length_s))
        tool.kill()
        tool.join(LIMIT_S)
        swapped = (runs.repo / "train.py").read_bytes() != SOURCE.encode()
    code = runs.restored()
    return swapped, runs.unsound() + ([f"restore: {code}"] if code else [])


def edited(runs: Runs, chance: random.Random, number: int) -> tuple[bool, list[object]]:
    """One edit during a run: whether it met the exchanged file, and what went wrong."""
    mine = SOURCE.encode() + b"# edit %d\n" % number
    path = runs.repo / "train.py"
    with runs.started(in_place=True) as tool:
        tool.join(chance.uniform(0, runs.length_s))
        met = path.read_bytes() != SOURCE.encode()
        if number % 2:
            path.write_bytes(mine)
        else:
            beside = runs.folder / "saved.py"
            beside.write_bytes(mine)
            beside.replace(path)
        tool.join(chance.uniform(0, runs.length_s) if number % 3 == 0 else LIMIT_S)
    runs.restored()
    texts = [each.read_bytes() for each in runs.repo.glob("train.py*")]
    wrong: list[object] = [] if mine in texts else ["the edit is lost"]
    # An edit that stands in the file before the run has read it is the original of that run.
    if met and SOURCE.encode() not in texts:
        wrong.append("the original is lost")
    if any(b"_instrument" in text for text in texts):
        wrong.append("instrumented text is left")
    wrong += leftovers(runs.repo, runs.cache)
    runs.put_back()
    return met, wrong


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--edits", type=int, default=10)
    parser.add_argument("--seed", default="4")
    parser.add_argument("--core", action="store_true")
    asked = parser.parse_args()
    chance = random.Random(asked.seed)
    with tempfile.TemporaryDirectory() as folder:
        runs = (CoreRuns if asked.core else Runs)(Path(folder))
        wrong = swapped = met = 0
        for number in range(asked.kills + asked.edits):
            if number < asked.kills:
                hit, faults = killed(runs, chance, in_place=number % 2 == 0 or asked.core)
                swapped += hit
            else:
                hit, faults = edited(runs, chance, number - asked.kills)
                met += hit
            wrong += bool(faults)
            for fault in faults:
                print(f"round {number}: {fault}", flush=True)
            if number % 10 == 9:
                print(f"{number + 1} rounds, {swapped + met} met the exchanged file", flush=True)
    print(
        f"{asked.kills} kills ({swapped} found the file exchanged), {asked.edits} edits ({met} of "
        f"the exchanged file): {wrong} rounds with a fault"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
