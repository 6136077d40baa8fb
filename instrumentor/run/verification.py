"""The witness's verdict on the timed region, in the user's files and lines.

The recorder writes it as the event ``witness`` (see runtime/recorder/judging.py); here it becomes
the entry ``verification`` of run.json and summary.json, and an error when the region is not the
step.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from instrumentor.locate.region.apart import Lines
from instrumentor.rewrite.source_map import SourceMap
from instrumentor.shared.errors import NotVerified
from instrumentor.shared.project import seen_from_here

#: A place for each frame, innermost first: file, line, function.
Stack: TypeAlias = Sequence[tuple[str, int, str]]

_WORLD = "world size"
_GRADIENTS = "gradients"
#: Of figures that nothing vouches for.
_UNSEEN: Mapping[str, Any] = {
    "status": "unverified",
    "verified": [],
    "unverified": dict.fromkeys(
        ("forward", "backward", "optimizer"), "the run's record holds no verdict"
    ),
    "problems": [],
    "notes": [],
    "parameters": None,
}


def verification(
    records: Iterable[Mapping[str, Any]], source_map: SourceMap, apart: Sequence[Lines] = ()
) -> dict[str, Any] | None:
    """The last verdict of a run's records; None when nothing was measured.

    Figures without a verdict, as of a script that shortened the record, are not verified.

    Args:
        apart: the user's lines within the region that the loss is not made from.
    Returns:
        ``status`` (verified, partly, unverified, failed), ``verified``, ``unverified`` (check ->
        why), ``problems`` (each with ``check``, ``text``, ``places``: file and line, the first
        the most telling), ``notes``, ``parameters`` and ``cost_ms``.
    """
    told = list(records)
    verdicts = [r for r in told if r.get("event") == "witness"]
    if not verdicts:
        return dict(_UNSEEN) if any(r.get("event") == "sample" for r in told) else None
    found = {key: value for key, value in verdicts[-1].items() if key not in ("event", "pid")}
    found["problems"] = [_problem(each, source_map) for each in found["problems"]]
    beside = _beside(found.pop("undifferentiated", ()), source_map, apart)
    return found if beside is None else _less_than_verified(found, beside)


def _beside(stacks: Iterable[Stack], source_map: SourceMap, apart: Sequence[Lines]) -> str | None:
    """Where a model ran inside of the region, and neither autograd nor reading says what for."""
    for stack in stacks:
        own = [found for file, line, _ in stack if (found := source_map.place(Path(file), line))]
        for file, line in own:
            if any(file == path and first <= line <= last for path, first, last in apart):
                return f"{seen_from_here(own[0][0])}:{own[0][1]}"
    return None


def _less_than_verified(found: dict[str, Any], place: str) -> dict[str, Any]:
    """The verdict when the region holds a forward that nothing connects with the loss."""
    why = f"{place} runs a model in the timed region that nothing connects with the loss"
    verified = [check for check in found["verified"] if check != "forward"]
    status = "partly" if verified else "unverified"
    return {
        **found,
        "status": found["status"] if found["status"] == "failed" else status,
        "verified": verified,
        "unverified": {"forward": why, **found["unverified"]},
    }


def failure(found: Mapping[str, Any] | None) -> NotVerified | None:
    """The error that a failed check is, else None."""
    if found is None or found["status"] != "failed":
        return None
    problem = found["problems"][0]
    where = "".join(f"\n  {place['file']}:{place['line']}" for place in problem["places"])
    more = "".join(f"\n  and {each['text']}" for each in found["problems"][1:])
    if problem["check"] == _GRADIENTS:
        return NotVerified(
            f"the instrumented copy trains less than the script: {problem['text']}{where}",
            "--keep-validation leaves validation in place, --skip PASS leaves a pass out; no "
            "figures are kept.",
        )
    if problem["check"] == _WORLD:
        return NotVerified(problem["text"], "Start it with one process, or profile a single rank.")
    return NotVerified(
        f"the timed region is not the step: {problem['text']}{where}{more}",
        "Give the lines of the step with --region, or another loop with --loop; no figures are "
        "kept.",
    )


def lacks_gradients(found: Mapping[str, Any]) -> bool:
    """Whether a trainable parameter of the first optimizer had no gradient when it stepped."""
    counts = found.get("parameters")
    return counts is not None and bool(counts["with_gradient"] < counts["trainable"])


def against(
    found: Mapping[str, Any],
    original: Mapping[str, int] | None,
    taken_out: Sequence[tuple[Path, int]],
) -> dict[str, Any]:
    """The verdict beside the counts of the script as it is.

    Args:
        original: ``trainable`` and ``with_gradient`` there.
        taken_out: files and lines of the statements that the copy lacks.
    """
    ours, theirs = found["parameters"], original or found["parameters"]
    # Parameters that the loss does not use have no gradient in either: not our doing.
    if theirs["with_gradient"] <= ours["with_gradient"]:
        note = f"{ours['with_gradient']} of {ours['trainable']} parameters get a gradient, as in "
        return {**found, "notes": [*found["notes"], f"{note}the unmodified script"]}
    text = (
        f"{ours['with_gradient']} of {ours['trainable']} parameters get a gradient, "
        f"{theirs['with_gradient']} in the unmodified script; one of the statements left out is "
        "needed"
    )
    places = [{"file": str(file), "line": line} for file, line in taken_out]
    problem = {"check": _GRADIENTS, "text": text, "places": places}
    return {**found, "status": "failed", "verified": [], "problems": [problem]}


def shown(found: Mapping[str, Any] | None, checks: Iterable[str]) -> bool:
    """Whether all of these were verified."""
    return found is not None and set(checks) <= set(found["verified"])


def of_several_processes(found: Mapping[str, Any]) -> bool:
    """Whether what was wrong is that the script trains in several processes."""
    return any(problem["check"] == _WORLD for problem in found["problems"])


def _problem(problem: Mapping[str, Any], source_map: SourceMap) -> dict[str, Any]:
    stacks = [problem["places"], *problem["others"]]
    places = [place for place in (_place(stack, source_map) for stack in stacks) if place]
    distinct = [each for n, each in enumerate(places) if each not in places[:n]]
    return {"check": problem["check"], "text": problem["text"], "places": distinct}


def _place(stack: Stack, source_map: SourceMap) -> dict[str, Any] | None:
    """The innermost place of a stack that is in the project; without one the innermost of all."""
    first = None
    for file, line, _ in stack:
        found = source_map.place(Path(file), line)
        if found is not None:
            return {"file": str(found[0]), "line": found[1]}
        first = first or {"file": file, "line": line}
    return first
