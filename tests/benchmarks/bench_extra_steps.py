"""Do the extra steps behind the samples leave the samples as they are?

Usage: python tests/benchmarks/bench_extra_steps.py [--pairs 10] [--python PYTHON]

Each pair is the same training script on torch's CPU, once with the extra steps (phases, modules)
and once without (`--phases 0`), taking turns at going first: medians of the timed region, and their
ratio. The goal is less than 0.5 %. A quiet machine is needed; busy runs are counted.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

from bench_what_if import run


def pair(seed: int, python: str) -> tuple[float, bool]:
    """Median with the extra steps over the one without, and whether a run was on a busy machine."""
    ways: dict[str, tuple[str, ...]] = {"with": ("--phases", "20"), "without": ("--phases", "0")}
    order = [*ways] if seed % 2 else [*reversed(ways)]
    with tempfile.TemporaryDirectory() as name:
        made = {
            way: run(Path(name), python, *ways[way], width=512, wait_s=0.0, out=way)
            for way in order
        }
    medians = {way: document["wall_clock_ms"]["median"] for way, document in made.items()}
    busy = any(each["code"] == "W201" for run in made.values() for each in run["warnings"])
    return medians["with"] / medians["without"], busy


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--python", default=sys.executable)
    options = parser.parse_args()
    ratios, busy = [], 0
    for seed in range(options.pairs):
        ratio, was_busy = pair(seed, options.python)
        ratios.append(ratio)
        busy += was_busy
        print(f"{seed:3d}  {(ratio - 1) * 100:+.2f} %", flush=True)
    middle = (statistics.median(ratios) - 1) * 100
    print(f"median of the ratios {middle:+.2f} %; goal within 0.5 %; busy pairs: {busy}")


if __name__ == "__main__":
    main()
