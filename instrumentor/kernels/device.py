"""A kernel's run on a device, under one of tt-lang's profilers: exactly one invocation of it."""

from __future__ import annotations

import re
import shlex
from contextlib import AbstractContextManager
from typing import Any

from instrumentor.kernels.environment import by_hand, mode_variables, removed
from instrumentor.kernels.pipeline import RECORD, KernelPipeline
from instrumentor.kernels.prepare import prepare_kernel
from instrumentor.kernels.tt_lang import RUN_TEST, TtLang, find_run_test, why_not
from instrumentor.kernels.validate import Verdict
from instrumentor.machine.device_locks import held
from instrumentor.machine.environment import examine
from instrumentor.run.execution import Execution
from instrumentor.run.known_failures import last_traceback
from instrumentor.run.process import excerpt
from instrumentor.run.profilers import Launch, Profiler
from instrumentor.shared.errors import InstrumentError, NotReady, RunFailed
from instrumentor.workspace.run_location import Workspace
from instrumentor_analysis.shared.documents import plain
from instrumentor_analysis.shared.files import read_text, write_whole

# The simulator's `from sim import ttl` needs no tt-lang.
_TTL = re.compile(rb"^[ \t]*(?:import|from) ttl\b", re.MULTILINE)
_PRINTED = "[instrument] "


class DeviceRun(KernelPipeline):
    """State of one run on a device."""

    profiler: TtLang

    def prepare(self) -> None:
        """Find the kernel and its invocation; put all calls behind a gate."""
        self.prepared = prepare_kernel(self.script, self.options.choice)
        self.tell_plan(self.prepared.plan.warnings, "skipped")

    def examine(self) -> None:
        """The interpreter, and how tt-lang's profilers are reached in it."""
        project, mode = self.plan.project, self.options.mode
        python = self.options.python
        self.machine = examine(project.root, python=python, env=self.env, cwd=self.cwd, needs="ttl")
        run_test = find_run_test(project.root, self.options.run_test, self.env)
        refused = why_not(mode, len(self.prepared.replacements)) if run_test else ""
        if refused:
            self.warn(f"{RUN_TEST} {refused}: run directly")
        self.profiler = TtLang(mode, None if refused else run_test, self.started)
        if self.profiler.run_test is None:  # which runs it on another machine
            self._check_tt_lang()
        self.removed = removed(self.env, mode)
        for name, why in self.removed.items():
            self.warn(f"{name} was taken out of the environment: {why}")

    def ready(self) -> AbstractContextManager[None]:
        """The devices of this machine, unless run-test.sh takes the script to another one's."""
        return held(self.machine.devices if self.profiler.via == "direct" else ())

    def _check_tt_lang(self) -> None:
        """See that tt-lang and tt-metal are there, before anything is copied or run.

        Raises:
            NotReady: ttl cannot be imported, or TT_METAL_HOME is missing where the mode needs it.
        """
        folders = (self.prepared.script.parent, self.plan.project.root, self.cwd)
        own = any((folder / name).exists() for folder in folders for name in ("ttl", "ttl.py"))
        sources = self.plan.found.sources
        imported = any(_TTL.search(source.data) for source in sources)
        elsewhere = any(b"sys.path" in source.data for source in sources)
        if imported and not (self.machine.has("ttl") or own or elsewhere):
            raise NotReady(
                f"ttl (tt-lang) is not installed in {self.machine.python}",
                "Activate tt-lang's environment (source build/env/activate), or name its "
                "interpreter with --python. Without a device: pip install tt-lang-sim.",
            )
        if self.options.mode != "signposts" and not self.env.get("TT_METAL_HOME"):
            raise NotReady(
                f"TT_METAL_HOME is not set, and --mode {self.options.mode} reads its profile there",
                "export TT_METAL_HOME=/path/to/tt-metal, or source tt-lang's environment. Without "
                "a device: pip install tt-lang-sim.",
            )

    def measure(self) -> None:
        self.process(self.profiler, record=self.folder / RECORD)
        self.profiler.keep_device_log(self.env, self.folder)

    def launched(self, launch: Launch, profiler: Profiler, name: str) -> None:
        self.launch = launch
        via = "directly" if self.profiler.via == "direct" else f"by {self.profiler.via}"
        self.progress.stage("running", f"--mode {self.options.mode}, {via}")

    def judge(self, made: Execution, workspace: Workspace) -> InstrumentError | None:
        """Whether exactly one invocation ran, of the chosen kernel, from the copy."""
        # What ended early says nothing of how many invocations there would have been.
        if made.finished.interrupted or made.finished.timed_out:
            return made.failure
        records = self.records()
        started = [r for r in records if r.get("event") == "kernel-start"]
        skipped = [str(r.get("kernel")) for r in records if r.get("event") == "skipped"]
        if len(started) > 1:
            processes = len({r.get("pid") for r in started})
            return RunFailed(
                f"{len(started)} invocations ran, in {processes} processes; the profile mixes them",
                "Profile a script that runs the kernel in one process.",
            )
        if not any(r.get("event") == "kernel" and r.get("ok") for r in records):
            return made.failure or self.never_ran(skipped, began=bool(started))
        # on another machine only run-test.sh knows what ran
        direct = self.profiler.via == "direct"
        failure = self.loaded_elsewhere(made, workspace, records) if direct else None
        if made.exit_code and failure is None:
            self._judge_exit(made.exit_code, skipped=bool(skipped))
        return failure

    def _judge_exit(self, code: int, *, skipped: bool) -> None:
        """The kernel was measured, but the script did not end well."""
        text = excerpt(self.folder / "run.log")
        last = (last_traceback(text) or "no traceback").splitlines()[-1]
        if skipped:
            self.warn(
                f"the script ended with code {code} ({last}) after the measured call: the "
                "skipped calls computed nothing, so its own checks do not count"
            )
        else:
            self.verdict = Verdict(False, "the script's own checks", last)

    def records(self) -> list[dict[str, Any]]:
        """The gate's events: from the record file, else those printed into the log."""
        from instrumentor_analysis.kernels.report import read_records

        record, log = self.folder / RECORD, self.folder / "run.log"
        # run-test.sh runs the copy elsewhere, where the record file cannot be reached: the gate
        # printed it.
        if self.profiler.via != "direct" and not record.exists() and log.is_file():
            lines = read_text(log, "replace").splitlines()
            printed = [line.partition(_PRINTED)[2] for line in lines if _PRINTED + "{" in line]
            write_whole(record, "".join(line + "\n" for line in printed).encode())
        return read_records(record)

    def own_facts(self) -> dict[str, Any]:
        options = self.options
        return {
            "mode": options.mode,
            "via": self.profiler.via,
            "environment": mode_variables(options.mode),
            "removed": self.removed,
            "production": {"shapes": plain(options.production_shape), "chips": options.chips},
            "rerun": self._rerun(),
        }

    def _rerun(self) -> str:
        """The command by hand: of the script itself when only one invocation is in it."""
        plan, script = self.plan, self.prepared.script
        once = plan.invocation is not None and not plan.invocation.loops
        if (plan.held_back or not once) and self.prepared.replacements.keys() == {script}:
            # A script can be run by hand as a copy; changed modules would have to be found by it.
            copy = self.folder / f"one_call_{self.script.name}"
            write_whole(copy, self.prepared.replacements[script])
            words = [f"PYTHONPATH={shlex.quote(str(script.parent))}", "python"]
            return by_hand(" ".join([*words, shlex.join([str(copy), *self.arguments])]))
        return by_hand(shlex.join(["python", str(script), *self.arguments]))
