"""Located loop + options -> Plan: the ordered edits, each with its reason, and the explanation.

A plan is a value: it holds no syntax tree, can be printed as JSON (``instrument-plan/1``) and is
all that the rewriting needs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from instrumentor.edits import Edit, Kind
from instrumentor.errors import UsageError
from instrumentor.explanation import (
    Backward,
    Call,
    Counter,
    EditLine,
    Evidence,
    Loop,
    Place,
    PlanDocument,
    Reason,
    Stop,
    Sync,
    TimedLines,
)
from instrumentor.locate.evidence import findings
from instrumentor.locate.loops import Site
from instrumentor.locate.model import Declined, Located
from instrumentor.locate.syntax import FUNCTIONS, callee
from instrumentor.options import Options, for_inference
from instrumentor.passes import PASSES, Names
from instrumentor_analysis.caveats import Caveat

#: Label of a plan without edits: samples run from one optimizer step's end to the next.
WHOLE_STEP = "whole step"
_MARK = b"_instrument"


class PlannedEdit(Struct, frozen=True):
    """An edit with the file it belongs to."""

    file: Path
    edit: Edit


class Plan(Struct, frozen=True):
    """What will be done to which file, and why.

    Attributes:
        file: the module that holds the loop.
        edits: in the order in which they are applied, all files together.
        explanation: the document of `explain --json`.
        names: names that the copy adds to the module.
        label: of the main samples: `fwd+bwd`, `step`, `inference` or `region`.
        options: as used: inference has its own default numbers of steps.
        warnings: what a reader of the result should know.
    """

    file: Path
    edits: tuple[PlannedEdit, ...]
    explanation: Mapping[str, Any]
    names: tuple[str, ...]
    label: str
    options: Options
    warnings: tuple[Caveat, ...]

    @property
    def files(self) -> tuple[Path, ...]:
        return tuple(dict.fromkeys(e.file for e in self.edits))

    def edits_of(self, file: Path) -> tuple[Edit, ...]:
        return tuple(e.edit for e in self.edits if e.file == file)

    def counts(self) -> dict[str, int]:
        """Inserted places, moved and disabled statements."""
        kinds = [e.edit.kind for e in self.edits]
        return {
            "inserted": sum(
                k in (Kind.INSERT_AFTER, Kind.INSERT_BEFORE, Kind.PRELUDE) for k in kinds
            ),
            "moved": kinds.count(Kind.MOVE_AFTER),
            "disabled": kinds.count(Kind.DISABLE),
        }

    def to_json(self) -> dict[str, Any]:
        """The explanation with the ordered edits."""
        edits: list[EditLine] = [
            {
                "pass": e.edit.pass_name,
                "kind": e.edit.kind.value,
                "file": str(e.file),
                "line": e.edit.at.line if e.edit.at else 1,
                "to": e.edit.to.line if e.edit.to else None,
                "reason": e.edit.reason,
            }
            for e in self.edits
        ]
        return {**self.explanation, "edits": edits}


def make_plan(located: Located, options: Options) -> Plan:
    """The edits of all passes, in the explicit order of :data:`instrumentor.passes.PASSES`.

    Raises:
        UsageError: `--only/--skip` names an unknown pass.
    """
    known = [p.NAME for p in PASSES]
    for name in (*options.only, *options.skip):
        if name not in known:
            raise UsageError(f"no pass is called {name!r}", f"Passes: {', '.join(known)}.")
    if not located.regions[0].sites and options.region_label == "region":
        options = for_inference(options)
    names = _fresh_names(located)
    edits: list[PlannedEdit] = []
    for module in PASSES:
        wanted = module.NAME in options.only if options.only else module.NAME not in options.skip
        if not wanted and module.NAME != "recorder":
            continue
        for source, edit in module.edits(located, names, options):
            named = replace(edit, pass_name=module.NAME)
            edits.append(PlannedEdit(source.path, named))
    edits = _without_conflicts(edits)
    explanation = explain_located(located)
    return Plan(
        located.candidate.source.path,
        tuple(edits),
        explanation,
        names.all,
        located.regions[0].label,
        options,
        tuple(located.warnings),
    )


def _without_conflicts(edits: list[PlannedEdit]) -> list[PlannedEdit]:
    """A statement is disabled once, and one that is disabled is not moved as well."""
    disabled = {(e.file, e.edit.at) for e in edits if e.edit.kind is Kind.DISABLE}
    seen: set[tuple[Path, object]] = set()
    kept: list[PlannedEdit] = []
    for planned in edits:
        key = (planned.file, planned.edit.at)
        if planned.edit.kind is Kind.DISABLE:
            if key in seen:
                continue
            seen.add(key)
        elif planned.edit.kind is Kind.MOVE_AFTER and key in disabled:
            continue
        kept.append(planned)
    return kept


def _fresh_names(located: Located) -> Names:
    """Names that no file of the plan uses in any scope."""
    data = (
        b"\n".join(s.data for s in located.program.sources.values())
        if len(located.program.sources) < 8
        else located.candidate.source.data
    )
    suffix = ""
    number = 1
    while re.search(rb"\b" + _MARK + suffix.encode() + rb"(_recorder)?\b", data):
        number += 1
        suffix = f"_{number}"
    base = _MARK.decode() + suffix
    return Names(base, f"{base}_recorder")


def explain_located(located: Located) -> dict[str, Any]:
    """The documented description of a located loop; lines are of the original files."""
    candidate = located.candidate
    source, loop = candidate.source, candidate.loop
    region, forward = located.regions[0], located.regions[0].forward
    stop = located.stop
    ends = [e.after for r in located.regions for e in r.ends]
    document = PlanDocument(
        eligible=True,
        mode="train" if region.sites else region.label,
        loop=Loop(
            file=str(source.path),
            line=loop.lineno,
            end_line=loop.end_lineno,
            function=candidate.scope.name if isinstance(candidate.scope, FUNCTIONS) else None,
            outer_lines=[o.lineno for o in reversed(source.loops_around(loop))],
        ),
        region=TimedLines(
            file=str(region.candidate.source.path),
            start_line=min(r.begin.lineno for r in located.regions),
            end_line=max(end.end_lineno or end.lineno for end in ends),
        ),
        forward=Place(file=str(forward.source.path), line=forward.statement.lineno),
        backward=_backward(located),
        call=_call(located),
        evidence=tuple(
            Evidence(part=f.part, file=str(f.source.path), line=f.line, by=f.by.value, name=f.name)
            for f in findings(located)
        ),
        sync=Sync(
            action=region.sync.action,
            line=region.sync.line or region.end.lineno,
            api=region.sync.api or None,
        ),
        counter=_counter(located),
        accumulation=located.accumulation,
        scope=located.scope,
        label=region.label,
        stop=Stop(strategy=stop.strategy, line=stop.unit.lineno, file=str(stop.source.path)),
        skipped_validation=_lines(located, "validation"),
        skipped_checkpoints=_lines(located, "checkpoint"),
        deferred_host_reads=tuple(sorted({n for d in located.deferred for n in d.reads})),
        disabled_cache_clears=tuple(s.lineno for _, s in located.cache_clears),
        warnings=tuple(located.warnings),
    )
    return document.to_json()


def _counter(located: Located) -> Counter | None:
    found = located.counter
    if found is None:
        return None
    return Counter(name=found.name, line=found.line, position=found.position)


def _spelled(site: Site) -> bool:
    """The call in the loop says that it is the backward, wherever that stands."""
    return bool(site.chain) and "backward" in callee(site.call)


def _backward(located: Located) -> Backward | None:
    """Where the backward is; None for inference and regions."""
    region = located.regions[0]
    if not region.sites:
        return None
    site = region.sites[0]
    lines = {s.backward_statement.lineno for r in located.regions for s in r.sites}
    source, statement = site.backward_source, site.backward_statement
    if _spelled(site):
        source, statement = region.candidate.source, site.statement
    others = sorted(lines - {site.backward_statement.lineno})
    return Backward(file=str(source.path), line=statement.lineno, others=others)


def _call(located: Located) -> Call | None:
    """The call that leads to a backward in a helper."""
    site = next(iter(located.regions[0].sites), None)
    if site is None or _spelled(site):
        return None
    backward = site.backward
    site = next(s for s in located.candidate.sites if s.backward is backward)
    return Call(line=site.statement.lineno) if site.chain else None


def _lines(located: Located, what: str) -> tuple[int, ...]:
    return tuple(sorted({s.statement.lineno for s in located.skipped if s.what == what}))


def explain_declined(declined: Declined) -> dict[str, Any]:
    """The same document for a script that is declined."""
    reasons = [
        Reason(file=str(r.file), line=r.line, kind=r.kind, message=r.message, remedy=r.hint)
        for r in declined.reasons
    ]
    return PlanDocument(reasons=tuple(reasons)).to_json()
