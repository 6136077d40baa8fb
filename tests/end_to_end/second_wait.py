"""Runs an instrumented script and waits for the device once more after every sample.

``python second_wait.py OUTPUT full|sync-only SCRIPT ARGS``, by an interpreter with torch_xla. A
sample ends when the line ``[TIMER] Step`` is printed, after the clock was read; what the second
wait takes is work that the sample missed. ``sync-only`` takes the wait out of the barrier, to
show what a timer that trusts torch_xla.sync alone would have said.

OUTPUT gets one line per sample: milliseconds of the second wait.
"""

import builtins
import runpy
import sys
import time
from pathlib import Path

import torch_xla.core.xla_model as xm


def main() -> None:
    output, mode, script = sys.argv[1:4]
    sys.argv[1:] = sys.argv[4:]
    sys.argv[0] = script
    wait = xm.wait_device_ops
    if mode == "sync-only":
        xm.wait_device_ops = lambda *_args, **_options: None
    write_line = builtins.print

    with Path(output).open("w") as rests:

        def printing(*values: object, **options: object) -> None:
            if values and str(values[0]).startswith("[TIMER] Step"):
                start = time.perf_counter()
                wait()
                rests.write(f"{(time.perf_counter() - start) * 1e3:.4f}\n")
                rests.flush()
            write_line(*values, **options)

        builtins.print = printing
        # As `python SCRIPT` would have it: relative imports of its folder, an absolute __file__.
        sys.path[0] = str(Path(script).resolve().parent)
        runpy.run_path(str(Path(script).resolve()), run_name="__main__")


if __name__ == "__main__":
    main()
