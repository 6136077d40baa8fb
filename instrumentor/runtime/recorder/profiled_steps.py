"""Steps under a profiler, which would have spoiled them as samples.

The first one follows the warm-up and an update, so that a script of few steps has one, too. One
step tells more of what interrupted it than of its ops, so some more follow the samples.
"""

import os
import runpy
import time
from typing import Any, Callable, Dict, Optional

from instrumentor.runtime.recorder.flops import compiles
from instrumentor.runtime.recorder.host_memory import peak_resident
from instrumentor.runtime.recorder.records import Records
from instrumentor.runtime.recorder.runtimes import runtime_of

#: Profiled steps, where the samples are over in time; no more once these seconds are spent.
MOST_PROFILED, MOST_PROFILED_S = 5, 5.0
PROFILED_NAME = "step_profiled"


class ProfiledSteps:
    """Calls ``open_profile`` and ``close_profile`` of the file that INSTRUMENT_HOOK names.

    Attributes:
        behind: there are enough samples, so that no step is taken from them any more.
        peak_before: the most memory of the process until the first such step: what the profiler
            needs, and keeps, is no memory of the script's.
    """

    def __init__(self, records: Records) -> None:
        self.records = records
        self.hook = os.environ.get("INSTRUMENT_HOOK", "")
        self.functions: Dict[str, Callable[..., Any]] = {}
        self.profile: Any = None
        self.running = False
        self.behind = False
        self.taken = 0
        self.peak_before: Optional[int] = None
        self.opened_s = self.spent_s = 0.0

    @property
    def due(self) -> bool:
        """Whether such a step is still to come: of several ranks that wait for each other, one."""
        if not self.hook:
            return False
        if not self.taken:
            return True
        few = self.taken < MOST_PROFILED and self.spent_s < MOST_PROFILED_S
        return self.behind and self.records.rank is None and few

    @property
    def next_name(self) -> str:
        """The name of the step to come."""
        return "%s_%d" % (PROFILED_NAME, self.taken) if self.taken else PROFILED_NAME

    def stop(self) -> None:
        """Take no more such steps than one."""
        if self.taken:
            self.hook = ""

    def cancel(self, device: Optional[str]) -> None:
        """Leave it out where torch.profiler does not see the device's operations."""
        self.hook = ""
        text = "There is the wall clock alone: torch.profiler sees nothing of %s work." % device
        self.records.warn(text, "no-torch-ops")

    def open(self) -> None:
        """Start the profiler."""
        # Set first: `running` has to be true where the profiler cannot be started, too.
        self.running, self.opened_s = True, time.perf_counter()
        if not self.taken:
            self.peak_before = peak_resident()
        try:
            self.functions = self.functions or runpy.run_path(self.hook)
            # Ranges around modules cost time: one step has them. What is compiled has no modules.
            self.profile = self.functions["open_profile"](self.taken == 1 and not compiles())
        except Exception as error:
            self.fail(error)

    def close(self, name: str, milliseconds: float, device: Optional[str]) -> None:
        """Stop the profiler and record the step's time."""
        profile, self.profile, self.running = self.profile, None, False
        number, self.taken = self.taken, self.taken + 1
        try:
            if self.records.rank:  # the files are those of the first rank
                stop_profile(profile)
            elif not self.hook:
                pass  # it could not be started
            elif device in (None, "unknown") or not runtime_of(device).profiled:
                stop_profile(profile)
                self.cancel(device)
            else:
                self.functions["close_profile"](profile, device, number)
        except Exception as error:
            self.fail(error)
        self.spent_s += time.perf_counter() - self.opened_s
        self.records.write("profiled", name=name, ms=milliseconds, device=device)

    def abandon(self) -> None:
        """The script ends within such a step: a profiler that runs on may crash the interpreter."""
        profile, self.profile = self.profile, None
        try:
            stop_profile(profile)
        except Exception as error:
            self.fail(error)

    def fail(self, error: Exception) -> None:
        """Say why there is no such step; there is no other one."""
        self.hook = ""
        self.records.warn("the profiled step failed: %r" % (error,))


def stop_profile(profile: Any) -> None:
    """End a profile without files."""
    if profile is not None:
        profile.stop()
