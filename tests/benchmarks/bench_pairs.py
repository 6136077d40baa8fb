"""How often pairs are wrong and how many they take: `python tests/benchmarks/bench_pairs.py [N]`.

N pairs of versions run in turn, of times that machines could have made; in each pair a coin decides
who is first. Counted are verdicts between equal versions, and those of a version that takes 3 %
more time; then what the gate at 0 % says of the same. Seeded; about eight minutes for N = 500, the
default.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.analysis.compare.turns import TURNS, decided_after, gated_after

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
    print(f"\nThe gate at 0 % over {count:,} comparisons of at most {MOST} pairs, %")
    print(f"  {'':<34}{'equal code':>22}   {'3 % slower':>22}")
    heads = f"{'fails':>7}{'passes':>8}{'pairs':>7}"
    print(f"  {'times of runs':<34}{heads}   {heads}")
    for kind in TURNS:
        both = [_gated(kind, ratio, count) for ratio in (1.0, 1.03)]
        print(f"  {kind:<34}" + "   ".join(both))


def _gated(kind: str, ratio: float, count: int) -> str:
    """Percent that fail and pass, and the pairs that it takes at the median."""
    made = [gated_after(kind, seed, ratio, MOST) for seed in range(count)]
    said = [outcome for outcome, _ in made]
    fails, passes = (said.count(each) / count * 100 for each in ("regression", "none"))
    pairs = sorted(pairs for _, pairs in made)[count // 2]
    return f"{fails:7.1f}{passes:8.1f}{pairs:7}"


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 500)
