"""Training scripts without torch, and what every end-to-end test asks of a run.

The injected code asks a loss for nothing but ``.device.type`` and a ``dtype``, so objects with
``backward()`` and ``step()`` are a training loop that starts in a moment. Reading must not tell
that the loss is such an object: a class with a ``backward`` of its own is none of torch's.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from instrumentor_analysis.shared.caveats import read_caveats
from tests.waiting import HANG_S, wait_for

SCRIPT = """\
import os
import sys
import time


class Device:
    type = "cpu"


class Loss:
    device, dtype = Device(), "float32"

    # Nobody can read whose it is: one that is seen to be the script's own trains nothing.
    backward = staticmethod(lambda: time.sleep(0.002))

    def item(self):
        return 0.5


class Optimizer:
    def step(self):
        pass

    def zero_grad(self):
        pass


def model(batch):
    return globals()["Loss"]()


def train(batches):
    optimizer = Optimizer()
    for batch in range(batches):
        optimizer.zero_grad()
        loss = model(batch)
        loss.backward()
        optimizer.step()
        # in the loop


def main():
    # before
    train(BATCHES)
    # after


if __name__ == "__main__":
    main()
"""


def script(
    *,
    batches: int | str = 1000,
    imports: str = "",
    before: str = "",
    loop: str = "",
    after: str = "",
) -> str:
    """A training script; ``before``, ``loop`` and ``after`` are statements to be put there."""

    def put(text: str, statements: str, mark: str, indent: str) -> str:
        lines = "".join(f"{indent}{line}\n" for line in statements.splitlines())
        return text.replace(f"{indent}# {mark}\n", lines)

    text = put(SCRIPT, loop, "in the loop", " " * 8)
    text = put(text, before, "before", " " * 4)
    text = put(text, after, "after", " " * 4)
    return imports + text.replace("BATCHES", str(batches))


def read(folder: Path, name: str = "summary.json") -> dict[str, Any]:
    """A JSON file of a run folder."""
    document: dict[str, Any] = json.loads((folder / name).read_text(encoding="utf-8"))
    return document


def records(folder: Path, event: str | None = None) -> list[dict[str, Any]]:
    """Records of timings.jsonl, of one kind if named."""
    lines = (folder / "timings.jsonl").read_text(encoding="utf-8").splitlines()
    found = [json.loads(line) for line in lines]
    return [r for r in found if event is None or r["event"] == event]


def beside_noise(warnings: list[Any]) -> list[str]:
    """Warnings other than those of steps that took long: a busy machine makes these true."""
    noise = {"outlier", "scatter", "not-steady", "busy-machine", "slower-clock"}
    return [str(each) for each in read_caveats(warnings) if each.kind not in noise]


def snapshot(folder: Path) -> dict[str, tuple[bytes, int, int]]:
    """Content, mode and mtime of every file below, git's own folder aside."""
    found = {}
    for path in sorted(folder.rglob("*")):
        relative = path.relative_to(folder)
        if path.is_file() and relative.parts[0] != ".git":
            facts = path.stat()
            found[str(relative)] = (path.read_bytes(), facts.st_mode, facts.st_mtime_ns)
    return found


def start(
    *arguments: str | Path, cwd: Path, env: Mapping[str, str] | None = None
) -> subprocess.Popen[str]:
    """Start the command line and do not wait for it."""
    return subprocess.Popen(
        [sys.executable, "-m", "instrumentor", *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, **(env or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def interrupt_after_samples(process: subprocess.Popen[str], folder: Path, count: int,
                            number: int = signal.SIGINT) -> tuple[str, str]:  # fmt: skip
    """Signal the tool once ``count`` samples are recorded; its stdout and stderr at the end."""
    record = folder / "timings.jsonl"
    wait_for(lambda: record.exists() and len(records(folder, "sample")) >= count)
    process.send_signal(number)
    return process.communicate(timeout=HANG_S)


def processes_with(text: str) -> list[int]:
    """Processes that carry a text in their environment or command line, this one left out."""
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit() or int(folder.name) == os.getpid():
            continue
        try:
            told = (folder / "environ").read_bytes() + (folder / "cmdline").read_bytes()
            state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if text.encode() in told and state != "Z":
            found.append(int(folder.name))
    return found
