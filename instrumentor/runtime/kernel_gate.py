"""What an instrumented copy of a kernel script carries: it lets one invocation through.

The function below is copied as text into every changed file (see
:mod:`instrumentor.kernels.gate`), so it stands alone and runs on Python 3.8. All copies in one
process share one gate. It reads ``INSTRUMENT_RECORD``, the file that gets one JSON object an
event; without it (a run on another machine) the events are printed, marked.

A kernel that is not let through does nothing and gives back the argument that it would have
written, as ``ttnn.generic_op`` does: the last one, unless the kernel returns another parameter.
With ``INSTRUMENT_KERNEL_OTHERS=run`` it runs: a simulator tells the chosen one from the others.
"""

from __future__ import annotations

from typing import Any


def _instrument_kernel_gate(file: str, kernel: str, path: tuple[int, ...] | None) -> Any:
    import atexit
    import json
    import os
    import sys
    import time
    from pathlib import Path

    class Watched:
        """A kernel behind the gate; everything but calling it is the kernel's own."""

        def __init__(self, gate: Any, name: str, inner: Any, result: int) -> None:
            self._instrument_gate = gate
            self._instrument_name = name
            self._instrument_inner = inner
            self._instrument_result = result

        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            return self._instrument_gate.call(self, args, kwargs)

        def __get__(self, instance: Any, owner: Any = None) -> Any:
            if instance is None:
                return self
            return lambda *args, **kwargs: self(instance, *args, **kwargs)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._instrument_inner, name)

    class Gate:
        """Counts the calls of all kernels; lets the chosen one through, once."""

        def __init__(self) -> None:
            self.sites = []  # type: list[int]  # the calls that are under way, outermost first
            self.ran = 0
            self.later = 0  # other calls that ran since
            self.running = False
            self.skipped = {}  # type: dict[str, int]
            atexit.register(self.finish)

        def write(self, **event: Any) -> None:
            event["pid"] = os.getpid()
            text = json.dumps(event)
            try:
                with Path(os.environ.get("INSTRUMENT_RECORD", ".")).open("a") as stream:
                    stream.write(text + "\n")
            except OSError:
                print("[instrument] " + text, flush=True)

        def at(self, site: int, function: Any) -> Any:
            """The function, with the place that calls it known while it runs."""

            def called(*args: Any, **kwargs: Any) -> Any:
                self.sites.append(site)
                try:
                    return function(*args, **kwargs)
                finally:
                    self.sites.pop()

            return called

        def watch(self, name: str, inner: Any, result: int = -1) -> Any:
            """A kernel, put behind the gate."""
            return Watched(self, name, inner, result)

        def call(self, watched: Any, args: Any, kwargs: Any) -> Any:
            inner = watched._instrument_inner
            if self.running:  # a kernel that is built from others
                return inner(*args, **kwargs)
            name, here = watched._instrument_name, tuple(self.sites)
            if name != kernel or self.ran or (path is not None and here != path):
                if os.environ.get("INSTRUMENT_KERNEL_OTHERS") == "run":
                    self.later += self.ran
                    return inner(*args, **kwargs)
                return self.skip(watched, name, here, args, kwargs)
            self.ran += 1
            self.running = True
            given = self.describe(args, kwargs)
            self.write(event="kernel-start", kernel=name, path=here, arguments=given)
            began = time.perf_counter()
            ok = False
            try:
                result = inner(*args, **kwargs)
                ok = True
                return result
            finally:
                self.running = False
                ms = (time.perf_counter() - began) * 1000
                self.write(event="kernel", kernel=name, path=here, host_ms=ms, ok=ok)

        def skip(self, watched: Any, name: str, here: Any, args: Any, kwargs: Any) -> Any:
            key = f"{name} at {list(here)}"
            self.skipped[key] = self.skipped.get(key, 0) + 1
            if self.skipped[key] == 1:
                self.write(event="skipped", kernel=name, path=here, after=self.ran > 0)
            values = list(args) + list(kwargs.values())
            at = watched._instrument_result
            return values[at] if -len(values) <= at < len(values) else None

        def describe(self, args: Any, kwargs: Any) -> Any:
            found = []
            for name, value in list(enumerate(args)) + list(kwargs.items()):
                try:
                    shape = [int(extent) for extent in value.shape]
                except (AttributeError, TypeError, ValueError):
                    continue
                dtype = str(getattr(value, "dtype", ""))
                found.append({"name": str(name), "shape": shape, "dtype": dtype})
            return found

        def finish(self) -> None:
            counts = {"ran": self.ran, "later": self.later, "skipped": self.skipped}
            self.write(event="kernel-count", **counts)

    modules = sys.modules  # type: dict[str, Any]
    gate = modules.get("_instrument_gate")
    if gate is None:
        gate = modules["_instrument_gate"] = Gate()
    gate.write(event="load", file=str(Path(file).absolute()), time=time.time())
    return gate
