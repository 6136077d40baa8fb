"""Stand-in for torch_xla: compile options act on the time of a step, memory ends above a batch.

Options are one global setting, and a later call replaces an earlier one. The room for runtime
trace is read at import; tracing without it fails. ``TUNING_BROKEN`` names an optimization level
that does not compile, ``TUNING_HANGS`` one whose compilation does not end.

The clock of the process is this module's: a step advances it by what it takes, with one percent of
jitter that is the same in each run, however busy the machine is.
"""

import os
import sys
import time
import types

OPTIONS = {}
REGION = int(os.environ.get("TT_RUNTIME_TRACE_REGION_SIZE") or 0)
LARGEST_BATCH = 16
CLOCK = [100.0]
STEPS = [0]

time.perf_counter = lambda: CLOCK[0]


def set_custom_compile_options(options):
    OPTIONS.clear()
    OPTIONS.update({name: str(value).lower() for name, value in options.items()})


class Work:
    """One step: 2 ms fixed and 0.5 ms a sample at optimization level 0 in float32."""

    def __init__(self, dtype, batch):
        self.dtype = dtype
        self.batch = batch

    def run(self):
        level = OPTIONS.get("optimization_level", "0")
        if level == os.environ.get("TUNING_BROKEN"):
            raise RuntimeError("failed to legalize operation 'ttir.conv2d'")
        if level == os.environ.get("TUNING_HANGS"):
            time.sleep(3600)
        if self.batch > LARGEST_BATCH:
            raise RuntimeError(
                f"Out of Memory: Not enough space to allocate {self.batch} B DRAM buffer across 8"
            )
        milliseconds = (2 + 0.5 * self.batch) * {"0": 1, "1": 0.8, "2": 0.5}[level]
        if self.dtype == "bfloat16":
            milliseconds *= 0.6
        if OPTIONS.get("enable_bfp8_conversion") == "true":
            if self.dtype != "bfloat16":
                raise RuntimeError("bfp8 needs a bfloat16 model")
            milliseconds *= 0.5
        if OPTIONS.get("enable_trace") == "true":
            if REGION < 1000:
                raise RuntimeError("Creating trace buffers of size 4096 failed")
            milliseconds *= 0.5
        STEPS[0] += 1
        CLOCK[0] += milliseconds * (1 + STEPS[0] * 7 % 11 / 1000) / 1000

    def loss(self):
        exact = 0.5 if self.dtype == "float32" else 0.501
        return exact * (1.05 if OPTIONS.get("enable_bfp8_conversion") == "true" else 1)


def device():
    return "xla:0"


def sync(wait=False):
    pass


def _module(name, **content):
    module = types.ModuleType(name)
    module.__dict__.update(content)
    module.__path__ = []
    sys.modules[name] = module
    parent, _, word = name.rpartition(".")
    setattr(sys.modules[parent], word, module)


_module("torch_xla.core")
_module(
    "torch_xla.core.xla_model",
    xla_device=device,
    wait_device_ops=lambda *args: None,
    get_rng_state=lambda *args: 0,
    set_rng_state=lambda *args: None,
)
