"""How often pairs are wrong and how many they take: `python tests/benchmarks/bench_pairs.py [N]`.

N pairs of versions run in turn, of times that machines could have made; in each pair a coin decides
who is first. Counted are verdicts between equal versions, and those of a version that takes 3 %
more time. Seeded; about four minutes for N = 500, the default.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.analysis.compare.turns import TURNS, decided_after

MOST = 200


def main(count: int) -> None:
    print(f"{count:,} comparisons of at most {MOST} pairs")
    print(f"  {'times of runs':<34}{'false, %':>10}{'found, %':>10}{'pairs: half':>13}{'95 %':>6}")
    for kind in TURNS:
        false = sum(decided_after(kind, seed, 1.0, MOST) is not None for seed in range(count))
        ends = [decided_after(kind, seed, 1.03, MOST) for seed in range(count)]
        found = sum(end is not None for end in ends) / count * 100
        taken = sorted(MOST + 1 if end is None else end for end in ends)
        half, most = taken[count // 2], taken[min(count - 1, count * 95 // 100)]
        shown = [str(each) if each <= MOST else f"> {MOST}" for each in (half, most)]
        print(f"  {kind:<34}{false / count * 100:10.1f}{found:10.1f}{shown[0]:>13}{shown[1]:>6}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 500)
