"""A kernel's run on tt-lang's simulator: the whole script, its chosen invocation watched.

The simulator is an ordinary package of the script's interpreter (tt-lang-sim) and runs the kernel's
own source. What it counts is summed in the script's process
(:mod:`instrumentor.runtime.kernel_simulation`); nothing of it is a time.
"""

from __future__ import annotations

import ast
import dataclasses
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from msgspec import Struct

from instrumentor.kernels.environment import without_profilers
from instrumentor.kernels.model import OLDER
from instrumentor.kernels.options import Criteria, KernelOptions
from instrumentor.kernels.own_check import own_check
from instrumentor.kernels.pipeline import RECORD, KernelPipeline
from instrumentor.kernels.prepare import prepare_kernel
from instrumentor.kernels.trials import Trial, with_trial
from instrumentor.kernels.tt_lang import find_run_test
from instrumentor.kernels.validate import Verdict, compare_files, is_check, raised_at, stamp
from instrumentor.machine.device_nodes import find_devices
from instrumentor.machine.environment import examine
from instrumentor.rewrite.prepare import script_path
from instrumentor.rewrite.source_map import SourceMap
from instrumentor.run.execution import Execution
from instrumentor.run.known_failures import last_traceback
from instrumentor.run.process import excerpt
from instrumentor.run.profilers import Artifacts, Launch, LaunchRequest, Profiler
from instrumentor.run.profilers.base import RUNTIME
from instrumentor.shared.errors import InstrumentError, NotReady, RunFailed
from instrumentor.shared.outputs import write_json
from instrumentor.shared.progress import Progress
from instrumentor.shared.project import find_project
from instrumentor.workspace.run_location import Workspace
from instrumentor_analysis.kernels.report import read_records
from instrumentor_analysis.kernels.simulation import FILE
from instrumentor_analysis.shared.documents import read

#: Seconds that a simulation may take unless --timeout says otherwise.
LIMIT_S = 300.0
LACKS = (
    "The kernel may be right: the simulator knows only the newer tt-lang (ttl.kernel is "
    "ttl.operation there) and a part of ttnn. Use these, do it in torch, or measure on a device."
)
INSTALL = "pip install tt-lang-sim (CPython 3.11 or newer), or name its interpreter: --python."


def can_simulate(options: KernelOptions, script: Path) -> bool:
    """Whether the script's interpreter has the simulator."""
    root, env = _root(options, script), options.variables
    machine = examine(root, python=options.python, env=env, cwd=options.folder, needs="ttl")
    return machine.simulates_kernels


def without_device(options: KernelOptions, script: Path) -> str:
    """Why a kernel is simulated though nobody asked for it; '' where it is not.

    Raises:
        UsageError: there is no such script.
    """
    env, root = options.variables, _root(options, script)
    if env.get("TT_METAL_SIMULATOR") or find_devices(env=env):
        return ""
    if find_run_test(root, options.run_test, env) is not None or not can_simulate(options, script):
        return ""
    return "no device here: simulated by tt-lang-sim, which tells no times"


def _root(options: KernelOptions, script: Path) -> Path:
    return find_project(script_path(options.folder / script)).root


class NotSimulated(RunFailed):
    """The simulator does not have what the script uses, which says nothing against the kernel."""


class Simulator(Struct, frozen=True):
    """tt-lang's simulator, as the way to measure a kernel.

    Attributes:
        words: its options.
    """

    words: tuple[str, ...]
    name: str = "tt-lang-sim"

    def launch(self, request: LaunchRequest) -> Launch:
        """The script under the simulator, whatever device the environment names."""
        order = {
            "script": str(request.script),
            "arguments": list(request.arguments),
            "options": list(self.words),
            "output": str(request.scratch / FILE),
        }
        variables = {
            **without_profilers(request.env),
            "PYTHONUNBUFFERED": "1",
            "INSTRUMENT_RECORD": str(request.record),
            "INSTRUMENT_KERNEL_OTHERS": "run",
        }
        runner = str(RUNTIME / "kernel_simulation.py")
        argv = (str(request.python), runner, json.dumps(order))
        return Launch(argv, variables, request.cwd)

    def collect(self, scratch: Path, output: Path, returncode: int) -> Artifacts:
        """The sums, as far as the run came."""
        if not (scratch / FILE).is_file():
            return Artifacts()
        return Artifacts({"simulation": Path(shutil.move(scratch / FILE, output / FILE))})


class SimulatedRun(KernelPipeline):
    """State of one simulated run."""

    profiler: Simulator

    def __init__(
        self,
        script: Path | str,
        arguments: Sequence[str],
        options: KernelOptions,
        progress: Progress | None,
        trial: Trial | None = None,
    ) -> None:
        super().__init__(script, arguments, options, progress)
        self.trial = trial
        self.before: tuple[int, ...] | None = None  # the output that an earlier run left

    def prepare(self) -> None:
        """Find the kernel and its invocation; the calls around it run, too.

        Raises:
            NotSimulated: it is written for the tt-lang before the simulator's.
        """
        self.prepared = prepare_kernel(self.script, self.options.choice, others_run=True)
        kernel = self.prepared.plan.kernel
        if kernel.decorator == OLDER:
            at = f"{kernel.source.path.name}:{kernel.line}"
            raise NotSimulated(f"tt-lang's simulator does not know ttl.{OLDER} ({at})", LACKS)
        if self.trial is not None:
            self.prepared = with_trial(self.prepared, self.trial)
        self.timeout_s = self.timeout_s or LIMIT_S
        plan = self.prepared.plan
        self.tell_plan(plan.warned(others_run=True), "run unwatched")

    def examine(self) -> None:
        """The interpreter and the simulator in it.

        Raises:
            NotReady: it has none.
        """
        root = self.plan.project.root
        python = self.options.python
        self.machine = examine(root, python=python, env=self.env, cwd=self.cwd, needs="ttl")
        if not self.machine.simulates_kernels:
            raise NotReady(f"{self.machine.python} has no tt-lang-sim", INSTALL)
        self.profiler = Simulator(self.options.simulated.words)

    def ready(self) -> AbstractContextManager[None]:
        """No device is used."""
        return nullcontext()

    def measure(self) -> None:
        self.process(self.profiler, record=self.folder / RECORD)

    def request(self, workspace: Workspace, name: str, **more: Any) -> LaunchRequest:
        output = self.options.criteria.output_file
        self.before = None if output is None else stamp(workspace.cwd / output)
        return super().request(workspace, name, **more)

    def launched(self, launch: Launch, profiler: Profiler, name: str) -> None:
        self.launch = launch
        version = self.machine.version_of("ttl") or "of a checkout"
        self.progress.stage("simulating", f"tt-lang-sim {version}, at most {self.timeout_s:g} s")

    # -- what it showed ------------------------------------------------------------------------

    def judge(self, made: Execution, workspace: Workspace) -> InstrumentError | None:
        """Whether the chosen invocation ended, and whether the script finds it right."""
        problem = self._places(self.source_map(workspace))
        if made.finished.interrupted:
            return made.failure
        if made.finished.timed_out:
            hint = "Simulate a smaller tensor, only copies and waits (--no-arithmetic), or longer: "
            return RunFailed(
                f"the simulation did not end within {self.timeout_s:g} s{problem and ': '}"
                f"{problem}",
                f"{hint}--timeout {2 * (self.timeout_s or LIMIT_S):g}.",
            )
        records = read_records(self.folder / RECORD)
        lacks = next((each for each in records if each.get("event") == "lacks"), None)
        if lacks is not None:
            place = self.source_map(workspace).place(Path(lacks["file"]), int(lacks["line"]))
            at = f" ({place[0].name}:{place[1]})" if place else ""
            return NotSimulated(f"tt-lang's simulator does not know {lacks['what']}{at}", LACKS)
        if problem:
            return RunFailed(problem, f"The whole output is in {self.folder}/run.log.")
        if not any(r.get("event") == "kernel" and r.get("ok") for r in records):
            began = any(r.get("event") == "kernel-start" for r in records)
            return made.failure or self.never_ran((), began=began)
        failure = self.loaded_elsewhere(made, workspace, records)
        return failure or self._judge_result(made, workspace)

    def _places(self, way: SourceMap) -> str:
        """Put the user's files, lines and names into the sums; returns what went wrong."""
        path = self.folder / FILE
        if not path.is_file():
            return ""
        found = read(path)
        problem = found["problem"] or {}
        if problem:
            problem["message"] = way.places(problem["message"])
        for row in _placed(found):
            if row.get("file"):
                own = way.place(Path(row["file"]), int(row["line"]))
                row["file"], row["line"] = (str(own[0]), own[1]) if own else (row["file"], 0)
        write_json(path, _named(found, self._names_of_lines()))
        return _told(problem)

    def _names_of_lines(self) -> Mapping[str, str]:
        """What the simulator calls a buffer in a list, by the copy's line -> its variable."""
        names = {buffer.line: buffer.name for buffer in self.plan.kernel.buffers}
        return {
            f"line {new}": names.get(old, f"the buffer of line {old}")
            for new, old in self.prepared.line_map.items()
        }

    def _judge_result(self, made: Execution, workspace: Workspace) -> InstrumentError | None:
        """The script's own checks, and what it wrote against the reference.

        Returns:
            What else the script ended with, which says nothing of the result.
        """
        if self.options.simulated.no_arithmetic:
            return None
        if made.exit_code:
            text = excerpt(self.folder / "run.log")
            raised = last_traceback(text)
            if raised is not None and not is_check(raised, workspace.root):
                return made.failure
            said = raised or text.strip() or f"code {made.exit_code}"
            way = self.source_map(workspace)
            at = raised_at(way.traceback(raised), way.root) if raised else ""
            detail, later = said.splitlines()[-1] + at, self._later()
            self.verdict = Verdict(False, "the script's own checks", detail, later)
        else:
            self._compare(workspace)
        return None

    def _later(self) -> int:
        """How many other calls of kernels began after the chosen one."""
        records = read_records(self.folder / RECORD)
        return max((int(r.get("later") or 0) for r in records), default=0)

    def _compare(self, workspace: Workspace) -> None:
        """What the script wrote against the reference, where there is one."""
        criteria = self.options.criteria
        if criteria.reference is None or criteria.output_file is None:
            return
        written, by = workspace.cwd / criteria.output_file, f"--reference {criteria.reference}"
        if stamp(written) not in (None, self.before):
            limits = criteria.rtol, criteria.atol
            self.verdict = compare_files(written, criteria.reference, *limits, by)
        else:
            self.verdict = Verdict(False, by, f"the script did not write {criteria.output_file}")

    def unchecked(self) -> Criteria:
        """The command; the reference was compared with what the simulated script wrote."""
        return dataclasses.replace(self.options.criteria, reference=None, output_file=None)

    def own_facts(self) -> dict[str, Any]:
        options = self.options.simulated
        return {
            "mode": "simulated",
            "simulator": self.machine.version_of("ttl"),
            "simulator_options": list(options.words),
            "arch": options.arch,
            "tensors": self._tensors(),
            "given": self._given(),
            "own_check": own_check(self.plan.found, self.plan.invocation, self._outputs()),
        }

    def _outputs(self) -> set[str] | None:
        """The variables of the call that hold what was written; None where they are unknown."""
        path, given = self.folder / FILE, self._given()
        if not path.is_file() or not given:
            return None
        counted = read(path)
        written = {row[2] for row in counted["copies"] if row[3] == "write"}
        written |= {name for name, last in counted["same"].items() if last in written}
        texts = (given[name] for name in written if name in given)
        return {text.partition(".")[0].partition("[")[0] for text in texts} or None

    def _given(self) -> dict[str, str]:
        """What the call says for each parameter, as the source does."""
        if self.plan.invocation is None:
            return {}
        call, names = self.plan.invocation.leaf.call, self.plan.kernel.parameters
        if any(isinstance(argument, ast.Starred) for argument in call.args):
            return {}
        given = dict(zip(names, map(ast.unparse, call.args), strict=False))
        return given | {k.arg: ast.unparse(k.value) for k in call.keywords if k.arg}

    def _tensors(self) -> list[str]:
        """The kernel's parameters that got a tensor."""
        records = read_records(self.folder / RECORD)
        started = next((r for r in records if r.get("event") == "kernel-start"), {})
        given = [str(each["name"]) for each in started.get("arguments", ())]
        names = dict(enumerate(self.plan.kernel.parameters))
        return [names.get(int(name), name) if name.isdecimal() else name for name in given]


def _named(found: dict[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """The sums with buffers under their variables' names."""
    found["buffers"] = {names.get(name, name): of for name, of in found["buffers"].items()}
    for row in found["blocks"]:
        row[2] = names.get(row[2], row[2])
    for row in found["places"]:
        row["name"] = names.get(row["name"], row["name"])
    for row in (*(found["problem"] or {}).get("blocked", ()), *found["places"]):
        row["buffer"] = names.get(row["buffer"], row["buffer"])
    return found


def _placed(found: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Everything in the sums that has a file and a line."""
    problem = found["problem"] or {}
    yield from (problem, *problem.get("blocked", ()), *found["places"])
    for written in found["written"].values():
        for clash in written["clashes"]:
            yield from (clash["earlier"], clash["later"])


def _told(problem: Mapping[str, Any]) -> str:
    """A problem in one sentence; '' for none."""
    if not problem:
        return ""
    if problem["kind"] == "deadlock":
        waits = [
            f"{row['thread']} waits at line {row['line']} for {row['buffer']}"
            for row in problem["blocked"]
        ]
        return f"deadlock: {', '.join(waits)}"
    where = f" at line {problem['line']} ({problem['thread']})" if problem.get("line") else ""
    if problem["kind"] == "stopped":
        return f"it stood{where}" if where else ""
    return f"the kernel failed{where}: {problem['message']}"
