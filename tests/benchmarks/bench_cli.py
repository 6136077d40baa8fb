"""What the tool costs, as ratios measured in one run: ``make bench``.

1. ``instrument --dry-run`` on a 200-line script, and on an experiment inside its repository, where
   modules are followed, against a process that only imports libcst and typer and parses the file.
   Both are started in turn, so that a busy machine hits both.
2. The same script in a repository of 30,000 files: the dry run against that in a small one, and
   the copy for a run, the first time and again with three files changed.
3. ``rewrite()`` against ``libcst.parse_module(source).code``, in one process.
4. What the injected code costs per step where there is no device to wait for: a loop whose
   forward and backward do nothing, with and without it.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "fixtures/experiments/blacksmith/experiments/torch/tiny_llama/train.py"
LINES = 200
FILES = 30_000

PARSE_ONLY = """
import sys, libcst, typer
from pathlib import Path
libcst.parse_module(Path(sys.argv[1]).read_bytes())
"""

EMPTY_LOOP = """
import operator
import sys
import time


class Device:
    type = "cpu"


class Loss:
    device, dtype = Device(), "float32"

    backward = staticmethod(lambda: None)  # no method: one defined here is no backward of torch


class Optimizer:
    def step(self):
        pass

    def zero_grad(self):
        pass


LOSS = Loss()
model = operator.itemgetter(0)  # what it returns cannot be read
STEPS = 5000


def train(optimizer):
    for batch in range(STEPS):
        loss = model((LOSS, batch))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


start = time.process_time()
train(Optimizer())
print(f"{(time.process_time() - start) / STEPS * 1e6:.3f}", file=sys.stderr)
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "train.py"
        path.write_text(_script_of(LINES), encoding="utf-8")
        _report("instrument --dry-run / import and parse", *_command_line(path), limit=1.3)
        repository = Path(folder) / "repository"
        shutil.copytree(ROOT / "fixtures/experiments", repository)
        (repository / "pyproject.toml").touch()
        script = repository / "blacksmith/experiments/torch/mnist/train.py"
        _report("the same inside its repository", *_command_line(script), limit=1.3)
        _report("rewrite() / parse_module + code", *_rewriting(path), limit=3.0)
        _report_step_cost(_step_cost_us(Path(folder)), limit_us=20.0)
        small = _repository(Path(folder) / "small", 10)
        large = _repository(Path(folder) / "large", FILES)
        ours = [_dry_run_s(script) for script in (large, small)]
        _report(f"instrument --dry-run in {FILES:,} files / in 10", *ours, limit=1.05)
        _report_copies(*_copies_s(large, Path(folder) / "cache"), limit_s=0.5)


def _script_of(lines: int) -> str:
    """The fixture's training script, filled up to `lines` with functions like those around it."""
    source = SCRIPT.read_text(encoding="utf-8")
    head, guard, tail = source.partition('if __name__ == "__main__":')
    filler = ""
    missing = lines - source.count("\n")
    for index in range(missing // 4):
        filler += f"def metric_{index}(loss, scale={index}):\n"
        filler += f'    return {{"value": loss.item() * scale, "index": {index}}}\n\n\n'
    return head + filler + "\n" * (missing % 4) + guard + tail


def _command_line(path: Path, rounds: int = 15) -> tuple[float, float]:
    """CPU seconds of the dry run and of the process that only imports and parses: the least of
    several, with byte code at hand as in an installed package."""
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(path.parent / "pycache")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    instrument = [str(Path(sys.executable).parent / "instrument"), "--dry-run", str(path)]
    parse_only = [sys.executable, "-c", PARSE_ONLY, str(path)]
    ours, floor = [], []
    for _ in range(rounds):
        ours.append(_cpu_s(instrument, environment))
        floor.append(_cpu_s(parse_only, environment))
    return min(ours), min(floor)


def _cpu_s(command: list[str], environment: dict[str, str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, capture_output=True, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _repository(folder: Path, files: int) -> Path:
    """A repository with a script and so many other files, all committed; the script."""
    for number in range(files):
        if number % 100 == 0:
            (folder / f"data_{number // 100}").mkdir(parents=True)
        (folder / f"data_{number // 100}" / f"{number}.txt").write_text(f"{number}\n" * 50)
    script = folder / "train.py"
    script.write_text(_script_of(LINES), encoding="utf-8")
    (folder / "pyproject.toml").touch()
    for words in (("init", "-q"), ("add", "."), ("commit", "-q", "-m", "all")):
        named = ("-c", "user.name=bench", "-c", "user.email=bench@example.org")
        subprocess.run(["git", *named, *words], cwd=folder, check=True)
    return script


def _dry_run_s(script: Path, rounds: int = 7) -> float:
    """CPU seconds of the dry run, the least of several."""
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(script.parent.parent / "pycache")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [str(Path(sys.executable).parent / "instrument"), "--dry-run", str(script)]
    return min(_cpu_s(command, environment) for _ in range(rounds))


def _copies_s(script: Path, cache: Path) -> tuple[float, float]:
    """Seconds until the copy for a run stands and is left: the first, and with three changes."""
    from instrumentor.shared.project import find_project
    from instrumentor.workspace import kept_copy
    from instrumentor.workspace.shadow import shadow

    os.environ["XDG_CACHE_HOME"] = str(cache)
    project, taken = find_project(script), []
    # What had changed less than a minute before it was copied is copied again.
    time.sleep(max(0.0, script.stat().st_ctime + kept_copy.QUIET_NS / 1e9 + 1 - time.time()))
    for changed in (0, 3):
        for number in range(changed):
            (script.parent / "data_0" / f"{number}.txt").write_text("changed\n")
        start = time.perf_counter()
        with shadow(project, script, script.parent, {script: script.read_bytes()}):
            pass
        taken.append(time.perf_counter() - start)
    return taken[0], taken[1]


def _rewriting(path: Path, rounds: int = 30) -> tuple[float, float]:
    """CPU seconds of rewrite() and of a parse with its way back to text, the least of several."""
    import libcst

    from instrumentor.rewrite import rewrite

    source = path.read_bytes()
    calls: tuple[Callable[[], object], ...] = (
        lambda: rewrite(source),
        lambda: libcst.parse_module(source).code,
    )
    taken: tuple[list[float], ...] = ([], [])
    for _ in range(rounds):  # in turn, so that a busy machine hits both
        for call, seconds in zip(calls, taken, strict=True):
            start = time.process_time()
            call()
            seconds.append(time.process_time() - start)
    return min(taken[0]), min(taken[1])


def _step_cost_us(folder: Path, rounds: int = 5) -> float:
    """CPU microseconds per step that the injected code adds: the least of several runs each."""
    from instrumentor.rewrite import rewrite
    from instrumentor.shared.options import Options

    plain = folder / "plain.py"
    plain.write_text(EMPTY_LOOP, encoding="utf-8")
    instrumented = folder / "instrumented.py"
    code = rewrite(EMPTY_LOOP, Options(self_contained=True)).code
    instrumented.write_bytes(code if isinstance(code, bytes) else code.encode())
    with_code = min(_loop_us(instrumented, folder) for _ in range(rounds))
    return with_code - min(_loop_us(plain, folder) for _ in range(rounds))


def _loop_us(script: Path, folder: Path) -> float:
    environment = {
        **os.environ,
        "INSTRUMENT_STEPS": "1000000",
        "INSTRUMENT_PROFILER": "wallclock",
        "INSTRUMENT_RECORD": str(folder / "timings.jsonl"),
    }
    with (folder / "output.log").open("w") as output:
        done = subprocess.run(
            [sys.executable, str(script)],
            env=environment,
            stdout=output,
            stderr=subprocess.PIPE,
            text=True,
            check=True,
        )
    return float(done.stderr.strip().splitlines()[-1])


def _report(what: str, ours_s: float, floor_s: float, limit: float) -> None:
    ratio = ours_s / floor_s
    print(
        f"{what:<42} {ours_s * 1e3:8.1f} / {floor_s * 1e3:.1f} ms = {ratio:.2f}x"
        f"  (limit {limit:g}x{'' if ratio <= limit else ', EXCEEDED'})",
        flush=True,
    )


def _report_step_cost(cost_us: float, limit_us: float) -> None:
    print(
        f"{'injected code per step, no barrier':<42} {cost_us:8.1f} us"
        f"  (limit {limit_us:.0f} us{'' if cost_us <= limit_us else ', EXCEEDED'})"
    )


def _report_copies(first_s: float, second_s: float, limit_s: float) -> None:
    print(
        f"{f'copy of {FILES:,} files, then with 3 changed':<42} {first_s:8.2f} / {second_s:.2f} s"
        f"  (limit of the second {limit_s:.1f} s{'' if second_s <= limit_s else ', EXCEEDED'})"
    )


if __name__ == "__main__":
    main()
