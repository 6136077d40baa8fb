"""What else went on while a script was measured: other processes, the clock of the CPU.

A host that is busy with something else shows steps many times too long, and nothing in the steps
tells that from a slow script.
"""

from __future__ import annotations

import os
import platform
import time
from pathlib import Path
from typing import Any

from instrumentor.machine.device_nodes import device_holders
from instrumentor_analysis.shared.files import read_text

#: Processes that run or wait, as a share of the CPUs, from which a machine counts as busy.
BUSY_LOAD_SHARE = 0.75
#: Of a processor that multiplies bfloat16 itself (x86, and `bf16` of ARM), in /proc/cpuinfo.
BFLOAT16_FLAGS = {"amx_bf16", "avx512_bf16", "bf16"}


class MachineLoad:
    """Between the start of a process and its end.

    CPU time that neither we nor processes of ours took is that of others; ours are known once they
    have been waited for.
    """

    def __init__(self, device_folder: Path) -> None:
        self.device_folder = device_folder
        self.load = _load()
        self.frequency_mhz = _frequency_mhz()
        self.started_s = time.monotonic()
        self.busy_s, self.own_s = _busy_s(), _own_s()

    def facts(self) -> dict[str, Any]:
        """`machine` of run.json: load averages of a minute, MHz; null where the system is silent.

        ``other_cpus`` is how many CPUs other processes kept busy on average, ``device_holders``
        how many processes have the device open although ours have ended.
        """
        elapsed_s = time.monotonic() - self.started_s
        other_s = _busy_s() - self.busy_s - (_own_s() - self.own_s)
        return {
            "cpus": os.cpu_count(),
            "other_cpus": round(max(0.0, other_s / elapsed_s), 2) if elapsed_s > 0 else None,
            "load_before": self.load,
            "load_after": _load(),
            "frequency_mhz_before": self.frequency_mhz,
            "frequency_mhz_after": _frequency_mhz(),
            "device_holders": self._holders(),
        }

    def _holders(self) -> int:
        return len(device_holders(self.device_folder)) if self.device_folder.is_dir() else 0


def cpu_model() -> str:
    """The name that the processor has for itself; its architecture where the system is silent."""
    return _of_cpuinfo("model name") or platform.processor() or platform.machine()


def computes_bfloat16() -> bool | None:
    """Whether the processor multiplies bfloat16 itself; None where the system is silent.

    Without that, torch converts each operand: a step in bfloat16 takes many times as long.
    """
    flags = _of_cpuinfo("flags") or _of_cpuinfo("Features")
    return bool(BFLOAT16_FLAGS & set(flags.split())) if flags else None


def _of_cpuinfo(name: str) -> str:
    """What /proc/cpuinfo says of the first processor under this name; empty for nothing."""
    try:
        text = read_text("/proc/cpuinfo", "replace")
    except OSError:
        return ""
    lines = (line.partition(":") for line in text.split("\n"))
    return next((said.strip() for key, _, said in lines if key.strip() == name), "")


def busy_lately() -> str:
    """What the last minute's load says of a busy machine; empty where it was quiet or is unknown.

    Only a forecast: what was run a moment ago counts, too. A run measures the others' CPU time.
    """
    load, cpus = _load(), os.cpu_count()
    if load is None or not cpus or load < BUSY_LOAD_SHARE * cpus:
        return ""
    processors = "1 CPU" if cpus == 1 else f"{cpus} CPUs"
    return f"the machine is busy: a load of {load:.1f} on {processors} over the last minute"


def _busy_s() -> float:
    """Seconds that all CPUs together have worked since the system started."""
    import psutil

    times = psutil.cpu_times()
    # A guest's time is in user and nice already.
    return float(sum(getattr(times, name, 0.0) for name in ("user", "nice", "system", "irq",
                                                            "softirq")))  # fmt: skip


def _own_s() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _load() -> float | None:
    try:
        return round(os.getloadavg()[0], 2)
    except OSError:
        return None


def _frequency_mhz() -> float | None:
    import psutil

    # Virtual machines and containers have no cpufreq: psutil then says None, or fails in many ways.
    try:
        found = psutil.cpu_freq()
    except (OSError, RuntimeError, NotImplementedError):
        return None
    return round(found.current, 1) if found is not None and found.current else None
