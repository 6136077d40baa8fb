"""What differs beside the code, and which runs may not be compared at all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from instrumentor_analysis.compare.model import Difference, Weight
from instrumentor_analysis.compare.side import Side
from instrumentor_analysis.model import Summary
from instrumentor_analysis.shared.documents import in_words
from instrumentor_analysis.shared.errors import NotComparable

_TRACY = "Tracy inflates the wall clock by some 10 to 15 %"
#: Facts of a run, as they are recorded: what they are called, and what a difference means.
_RUN: dict[str, tuple[str, Weight, str]] = {
    "script": ("script", "note", ""),
    "arguments": ("arguments", "note", ""),
    "steps": ("steps", "note", ""),
    "warmup": (
        "warm-up steps",
        "doubt",
        "one side may still be warming up during its steady steps",
    ),
}
# The code is usually what is being compared, so that another commit is a note; another machine or
# library may be the real cause of a difference, which is a doubt.
_ENVIRONMENT: dict[str, tuple[str, Weight, str]] = {
    "git_commit": ("commit", "note", ""),
    "git_dirty": ("uncommitted changes", "note", ""),
    "host": ("host", "doubt", "another machine"),
    "platform": ("platform", "doubt", ""),
    "python_version": ("Python", "doubt", ""),
    "torch_version": ("torch", "doubt", ""),
    "devices": ("devices", "doubt", ""),
    "cpu_count": ("CPUs", "doubt", ""),
    "cpu_model": ("CPU", "doubt", ""),
    "torch_threads": ("torch threads", "doubt", ""),
    "simulator": ("simulator", "doubt", ""),
    "tt_xla": ("tt-xla checkout", "doubt", ""),
    "instrumentor": ("instrumentor", "doubt", ""),
}


def refuse(base: Side, new: Side) -> None:
    """Refuse what would be meaningless.

    Raises:
        NotComparable: the wall clock is Tracy's on one side only, nothing was timed alike, or
            nothing was measured on one side.
    """
    timed = bool(base.labels()), bool(new.labels())
    if all(timed) and base.traced != new.traced:
        traced, plain = (base, new) if base.traced else (new, base)
        raise NotComparable(
            f"{traced.name} was measured under Tracy and {plain.name} was not: {_TRACY}, so the "
            "wall clocks do not say which is faster",
            f"Measure {traced.name} again with --untraced, which times it without Tracy first, or "
            "both with the same --profiler.",
        )
    if all(timed) and not set(base.labels()) & set(new.labels()):
        raise NotComparable(
            f"{base.name} timed {' and '.join(base.labels())} and {new.name} timed "
            f"{' and '.join(new.labels())}: different parts of a step",
            "Measure both with the same --scope (fwd-bwd or step).",
        )
    for side, here in zip((base, new), timed, strict=True):
        if not here and not side.on_device:
            raise NotComparable(
                f"{side.name} holds no steady step and no device time",
                "Run it again with more steps: --steps 10.",
            )
    if not all(timed) and not (base.on_device and new.on_device):
        missing = base if timed[1] else new
        raise NotComparable(
            f"{missing.name} holds no steady step, the other side nothing but its wall clock",
            f"Run {missing.name} again with more steps: --steps 10.",
        )


def differences(base: Side, new: Side) -> tuple[Difference, ...]:
    """What is not the same on both sides, what may explain a difference first."""
    both, old, now = (base, new), base.summary, new.summary
    found: list[Difference] = []

    def held(what: str, sides: Iterable[Any], weight: Weight = "doubt", meaning: str = "") -> None:
        old, now = ("unknown" if each is None else in_words(each) or "none" for each in sides)
        if old != now:
            found.append(Difference(what, old, now, weight, meaning))

    def recorded(
        old: Mapping[str, Any], now: Mapping[str, Any], facts: dict[str, tuple[str, Weight, str]]
    ) -> None:
        """Add recorded facts that differ; one that a side does not know is no difference."""
        for key, (what, weight, meaning) in facts.items():
            if old.get(key) is not None and now.get(key) is not None:
                held(what, (old[key], now[key]), weight, meaning)

    profilers = base.profiler, new.profiler
    if base.on_device and new.on_device:
        held("profiler", profilers, meaning="the device figures come from different profilers")
    else:
        held("profiler", profilers, "note")
    held("Tracy in the wall clock", ["on" if s.traced else "off" for s in both], meaning=_TRACY)
    held("architecture", (old.architecture, now.architecture))
    worlds = [1 if each.ranks is None else each.ranks.world for each in (old, now)]
    held("processes", worlds, meaning="times are rank 0's, the throughput is that of all ranks")
    sizes = base.batch_size, new.batch_size
    # Sizes that are known are divided out (times per sample), so that they raise no doubt.
    if None in sizes:
        assumed = "assumed to be the same; if not, give --batch-size BASE,NEW"
        held("batch size", sizes, meaning=assumed)
    else:
        held("batch size", sizes, "note", "times per sample")
    recorded(old.run, now.run, _RUN)
    recorded(old.environment, now.environment, _ENVIRONMENT)
    packages = [each.environment.get("packages") for each in (old, now)]
    known = [each for each in packages if isinstance(each, Mapping)]
    # torch is one of the recorded facts above.
    for name in sorted({name for each in known for name in each} - {"torch"}):
        if len(known) == 2:
            held(name, [each.get(name) for each in known])
    held("completed", [_ended(side.summary) for side in both], meaning="one run is incomplete")
    return tuple(sorted(found, key=lambda each: each.weight != "doubt"))


def _ended(summary: Summary) -> str:
    return "interrupted" if summary.interrupted else "partial" if summary.partial else "yes"
