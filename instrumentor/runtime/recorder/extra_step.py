"""One more step after the samples, under a profiler that would have spoiled them."""

import os
import runpy
from typing import Any, Callable, Optional

from instrumentor.runtime.recorder.records import Records


class ExtraStep:
    """Calls ``open_profile`` and ``close_profile`` of the file that INSTRUMENT_HOOK names."""

    def __init__(self, records: Records) -> None:
        self.records = records
        self.hook = os.environ.get("INSTRUMENT_HOOK", "")
        self.close_profile: Optional[Callable[[Any, Optional[str]], None]] = None
        self.profile: Any = None

    @property
    def due(self) -> bool:
        """Whether the step is still to come."""
        return bool(self.hook)

    @property
    def running(self) -> bool:
        """Whether the open region is that step."""
        return self.close_profile is not None

    def cancel(self, device: str) -> None:
        """Leave it out where torch.profiler does not see the device's operations."""
        self.hook = ""
        text = "There is the wall clock alone: torch.profiler sees nothing of %s work." % device
        self.records.warn(text, "no-torch-ops")

    def open(self) -> None:
        """Start the profiler."""
        # Set first: `running` has to be true where the profiler cannot be started, too.
        self.close_profile = lambda profile, device: None
        try:
            functions = runpy.run_path(self.hook)
            self.profile = functions["open_profile"]()
            self.close_profile = functions["close_profile"]
        except Exception as error:
            self.records.warn("the profiled step failed: %r" % (error,))

    def close(self, name: str, milliseconds: float, device: Optional[str]) -> None:
        """Stop the profiler and record the step's time."""
        close, profile = self.close_profile, self.profile
        self.close_profile, self.profile, self.hook = None, None, ""
        try:
            assert close is not None
            if self.records.rank:  # the files are those of the first rank
                close = stop_profile
            close(profile, device)
        except Exception as error:
            self.records.warn("the profiled step failed: %r" % (error,))
        self.records.write("profiled", name=name, ms=milliseconds, device=device)


def stop_profile(profile: Any, device: Optional[str]) -> None:
    """End a profile without files."""
    if profile is not None:
        profile.stop()
