"""What differs beside the code, and which runs may not be compared at all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from instrumentor_analysis.comparison.model import Difference, Weight
from instrumentor_analysis.comparison.side import Side
from instrumentor_analysis.documents import in_words
from instrumentor_analysis.errors import NotComparable

_TRACY = "Tracy inflates the wall clock by some 10 to 15 %"
#: Facts of a run, as they are recorded, with what a difference means.
_RUN: tuple[tuple[str, str, Weight, str], ...] = (
    ("script", "script", "note", ""),
    ("arguments", "arguments", "note", ""),
    ("steps", "steps", "note", ""),
    ("warmup", "warm-up steps", "doubt", "one side may still be warming up in its steady steps"),
)
_ENVIRONMENT: tuple[tuple[str, str, Weight, str], ...] = (
    ("git_commit", "commit", "note", ""),
    ("git_dirty", "uncommitted changes", "note", ""),
    ("host", "host", "doubt", "another machine"),
    ("platform", "platform", "doubt", ""),
    ("python_version", "Python", "doubt", ""),
    ("torch_version", "torch", "doubt", ""),
    ("devices", "devices", "doubt", ""),
    ("cpu_count", "CPUs", "doubt", ""),
    ("tt_xla", "tt-xla checkout", "doubt", ""),
    ("instrumentor", "instrumentor", "doubt", ""),
)


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
            f"{base.name} timed {_listed(base)} and {new.name} timed {_listed(new)}: different "
            "parts of a step",
            "Measure both with the same --scope (fwd-bwd or step).",
        )
    for side, here in zip((base, new), timed, strict=True):
        if not here and not side.on_device:
            raise NotComparable(
                f"{side.name} holds no steady step and no device time",
                "Run it with more steps: instrument run --steps 10.",
            )
    if not all(timed) and not (base.on_device and new.on_device):
        missing = base if timed[1] else new
        raise NotComparable(
            f"{missing.name} holds no steady step, the other side nothing but its wall clock",
            f"Run {missing.name} with more steps: instrument run --steps 10.",
        )


def _listed(side: Side) -> str:
    return " and ".join(side.labels())


def differences(base: Side, new: Side) -> tuple[Difference, ...]:
    """What is not the same on both sides, what may explain a difference first."""
    found = [
        *_profiler(base, new),
        _one("architecture", _architecture(base), _architecture(new), "doubt"),
        _batch(base, new),
        *_recorded(base.summary.run, new.summary.run, _RUN),
        *_recorded(base.summary.environment, new.summary.environment, _ENVIRONMENT),
        *_packages(base, new),
        _one("came to its end", _ended(base), _ended(new), "doubt", "part of a run"),
    ]
    every = [each for each in found if each is not None]
    return tuple(sorted(every, key=lambda each: each.weight != "doubt"))


def _one(
    what: str, base: str, new: str, weight: Weight = "note", meaning: str = ""
) -> Difference | None:
    return None if base == new else Difference(what, base, new, weight, meaning)


def _profiler(base: Side, new: Side) -> list[Difference | None]:
    tracy = ["on" if side.traced else "off" for side in (base, new)]
    meaning = "the device figures come from different profilers"
    weight: Weight = "doubt" if base.on_device and new.on_device else "note"
    return [
        _one("profiler", base.profiler, new.profiler, weight, meaning if weight == "doubt" else ""),
        _one("Tracy in the wall clock", tracy[0], tracy[1], "doubt", _TRACY),
    ]


def _batch(base: Side, new: Side) -> Difference | None:
    sizes = base.batch_size, new.batch_size
    if sizes[0] == sizes[1]:
        return None
    if None in sizes:
        return Difference(
            "batch size",
            _shown(sizes[0]),
            _shown(sizes[1]),
            "doubt",
            "assumed to be the same; --batch-size BASE,NEW says otherwise",
        )
    return Difference("batch size", _shown(sizes[0]), _shown(sizes[1]), "note", "times per sample")


def _recorded(
    base: Mapping[str, Any],
    new: Mapping[str, Any],
    keys: tuple[tuple[str, str, Weight, str], ...],
) -> list[Difference | None]:
    """What both sides recorded, and otherwise; what one does not know is no difference."""
    return [
        _one(what, _shown(base[key]), _shown(new[key]), weight, meaning)
        for key, what, weight, meaning in keys
        if base.get(key) is not None and new.get(key) is not None
    ]


def _packages(base: Side, new: Side) -> list[Difference | None]:
    versions = [side.summary.environment.get("packages") for side in (base, new)]
    old, now = (each if isinstance(each, Mapping) else None for each in versions)
    if old is None or now is None:
        return []
    # torch stands among the facts already.
    return [
        _one(name, _shown(old.get(name)), _shown(now.get(name)), "doubt")
        for name in sorted({*old, *now} - {"torch"})
    ]


def _architecture(side: Side) -> str:
    return _shown(side.summary.architecture)


def _ended(side: Side) -> str:
    if side.summary.interrupted:
        return "interrupted"
    return "partial" if side.summary.partial else "yes"


def _shown(value: Any) -> str:
    return "unknown" if value is None else in_words(value) or "none"
