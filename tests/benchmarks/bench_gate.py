"""How often a comparison and the gate are wrong: `python tests/benchmarks/bench_gate.py [PAIRS]`.

Of steps: pairs of series from one distribution, under correlation, drift, outliers and unequal
numbers of steps; what is counted is a difference that is called real. Of runs: the gate over pairs
drawn from recorded runs, with as many repeats as it asks for; the new code is the same, or 3 %
slower. Seeded; about a minute for a thousand pairs.
"""

from __future__ import annotations

import math
import random
import statistics
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from instrumentor_analysis.compare.ratio import ratio_of_medians
from tests.analysis.compare.recorded import RECORDED, decided, reaches
from tests.analysis.series import KINDS, SIZES

OUTCOMES = ("regression", "none", "undecided")


def main(pairs: int) -> None:
    print(f"False differences between equal codes, % of {pairs:,} pairs (goal: at most 6)")
    print(f"  {'steps on each side':<18}" + "".join(f"{kind:>16}" for kind in KINDS))
    for sizes in SIZES:
        found = [_false(kind, sizes, pairs) for kind in KINDS]
        print(f"  {'{} and {}'.format(*sizes):<18}" + "".join(f"{each:16.1f}" for each in found))
    print(
        f"\nThe gate at 0 % over {pairs:,} pairs of recorded runs (goals: at most 1, at least 95)"
    )
    for script in RECORDED:
        for name, slower in (("equal code", 0.0), ("3 % slower", math.log(1.03))):
            draw, pool = random.Random(f"{script} {name}"), reaches(script)
            made = [decided(draw, pool, slower) for _ in range(pairs)]
            said = Counter(outcome for outcome, _ in made)
            shares = ", ".join(
                f"{said[o] / pairs:.1%} {o}" for o in ("regression", "none", "undecided")
            )
            runs = statistics.median(count for _, count in made)
            print(f"  {script:<11} {name}: {shares}; {runs:g} runs on each side at the median")


def _false(kind: str, sizes: tuple[int, int], pairs: int) -> float:
    draw, made = random.Random(str((kind, sizes))), KINDS[kind]
    found = [ratio_of_medians(made(draw, sizes[0]), made(draw, sizes[1])) for _ in range(pairs)]
    return sum(each is not None and each.real for each in found) / pairs * 100


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
