"""Times the recorder's barrier from outside: put this folder on PYTHONPATH of an XLA run.

For every sample, one JSON line goes to the file that TEST_XLA_WAITS names: when each sync since
the last sample had returned, in seconds of ``time.perf_counter`` (the clock of the samples), and
how long a second wait for the device took after the clock was read, in ms. A sample's clock has
been read when its line is written to the record. Nothing is imported that the script does not
import.
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import json
import os
import sys
import time
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

WATCHED = "torch_xla.core.xla_model"


class _Finder(importlib.abc.MetaPathFinder):
    """Wraps the module once it is loaded, by whomever."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name != WATCHED:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        assert spec is not None and spec.loader is not None
        load = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            load(module)
            _watch(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _watch(xm: Any) -> None:
    lowest = sys.modules["torch_xla"]._XLAC
    wait, cut, write = xm.wait_device_ops, lowest._xla_step_marker, os.write
    synced: list[float] = []

    def step_marker(*arguments: Any, **options: Any) -> Any:
        result = cut(*arguments, **options)
        synced.append(time.perf_counter())
        return result

    def writing(descriptor: int, data: bytes) -> int:
        sampled = data.startswith(b'{"event": "sample"')
        if sampled and lowest._xla_runtime_is_initialized():
            start = time.perf_counter()
            wait()
            second_ms = (time.perf_counter() - start) * 1e3
            with open(os.environ["TEST_XLA_WAITS"], "a") as stream:  # noqa: PTH123
                stream.write(json.dumps({"synced_s": synced, "second_ms": second_ms}) + "\n")
            synced.clear()
        return write(descriptor, data)

    lowest._xla_step_marker = step_marker
    os.write = writing


if os.environ.get("TEST_XLA_WAITS"):
    sys.meta_path.insert(0, _Finder())
