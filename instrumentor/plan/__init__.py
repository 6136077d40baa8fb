"""Located loop + options -> Plan: the ordered edits, each with its reason, and the explanation.

In: a `Located` step and options; out: a `Plan`.

A plan is a value: it holds no syntax tree, can be printed as JSON (``instrument-plan/1``) and is
all that the rewriting needs.
"""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Mapping, Sequence
from itertools import chain, count
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from instrumentor.locate.evidence import findings
from instrumentor.locate.located import Declined, Located
from instrumentor.locate.loop.loops import Site
from instrumentor.locate.region.apart import Lines, apart_from_the_loss
from instrumentor.locate.region.barrier_hints import hands_nothing_out
from instrumentor.plan.explanation import (
    RUNNING,
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
from instrumentor.plan.passes import PASSES, recorder
from instrumentor.plan.passes.region import batch_of
from instrumentor.read.syntax import FUNCTIONS, Source, callee, contains, suites
from instrumentor.shared.edits import Edit, Kind
from instrumentor.shared.errors import UsageError
from instrumentor.shared.options import Options
from instrumentor.shared.project import seen_from_here
from instrumentor_analysis.shared.caveats import Caveat

#: Label of a plan without edits: samples run from one optimizer step's end to the next.
WHOLE_STEP = "whole step"


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
        apart: lines within the region that the loss is not made from.
        fetches: the loop's head may hand out the batch; False of one that only counts.
    """

    file: Path
    edits: tuple[Edit, ...]
    explanation: Mapping[str, Any]
    names: tuple[str, ...]
    label: str
    options: Options
    warnings: tuple[Caveat, ...]
    apart: tuple[Lines, ...] = ()
    fetches: bool = True

    @property
    def files(self) -> tuple[Path, ...]:
        """The modules that are edited, each once."""
        return tuple(dict.fromkeys(e.file for e in self.edits))

    @property
    def rest_of_update(self) -> str:
        """What is said behind a number of steps that are micro-steps: they end with an update."""
        several = self.explanation.get("accumulation") not in (None, "none")
        micro = several and self.explanation.get("scope") == "fwd-bwd"
        return " and the rest of their update" if micro else ""

    @property
    def found(self) -> str:
        """Where the loop and its step are: ``train.py:9 (forward model.py:5, backward 12)``.

        A line of the loop's own file stands without its name.
        """
        loop, counter = self.explanation["loop"], self.explanation["counter"]
        file, parts = loop["file"], list[str]()
        for name in ("forward", "backward"):
            if at := self.explanation[name]:
                away = "" if at["file"] == file else f"{seen_from_here(Path(at['file']))}:"
                parts.append(f"{name} {away}{at['line']}")
        parts += [f"counter {counter['name']} {counter['line']}"] if counter else []
        if self.label == WHOLE_STEP:
            parts = ["whole steps of what is called there"]
        seen = "; found by running the script" if self.explanation["found_by"] == RUNNING else ""
        return f"{seen_from_here(Path(file))}:{loop['line']} ({', '.join(parts)}{seen})"

    def edits_of(self, file: Path) -> tuple[Edit, ...]:
        """The edits of one module, in their order."""
        return tuple(e for e in self.edits if e.file == file)

    def counts(self) -> dict[str, int]:
        """Inserted places, moved and disabled statements."""
        kinds = [e.kind for e in self.edits]
        moved, disabled = kinds.count(Kind.MOVE_AFTER), kinds.count(Kind.DISABLE)
        return {"inserted": len(kinds) - moved - disabled, "moved": moved, "disabled": disabled}

    def to_json(self) -> dict[str, Any]:
        """The explanation with the ordered edits."""
        edits: list[EditLine] = [
            {
                "pass": e.pass_name,
                "kind": e.kind.value,
                "file": str(e.file),
                "line": e.at.line if e.at else 1,
                "to": e.to.line if e.to else None,
                "reason": e.reason,
            }
            for e in self.edits
        ]
        return {**self.explanation, "edits": edits}


def make_plan(located: Located, options: Options) -> Plan:
    """The edits of all passes, in the explicit order of :data:`instrumentor.plan.passes.PASSES`.

    Raises:
        UsageError: `--only/--skip` names an unknown pass.
    """
    known = [recorder.NAME, *PASSES]
    for name in (*options.only, *options.skip):
        if name not in known:
            raise UsageError(f"no pass is called {name!r}", f"Passes: {', '.join(known)}.")
    # Without a backward it is inference, or the user's own lines.
    if not located.regions[0].sites:
        options = dataclasses.replace(options, inference=True)
    main, object_name = located.candidate.source, _fresh_name(located)
    wanted = [
        (name, list(edits_of(located, object_name)))
        for name, edits_of in PASSES.items()
        if (name in options.only if options.only else name not in options.skip)
    ]
    others = [each for _, made in wanted for each in made]
    # The recorder first: edits at one place take effect in this order.
    found = [(recorder.NAME, recorder.edits(located, object_name, options, others)), *wanted]
    edits, warnings = [], list(located.warnings)
    for name, made in found:
        for source, edit in made:
            if options.self_contained and source is not main:
                warnings += _left_out(source, edit)
            else:
                edits.append(replace(edit, file=source.path, pass_name=name))
    return Plan(
        main.path,
        _without_conflicts(edits),
        explain_located(located),
        (object_name, f"{object_name}_recorder"),
        located.regions[0].label,
        options,
        tuple(warnings),
        apart_from_the_loss(located.regions),
        not hands_nothing_out(located.candidate.knowledge, located.candidate),
    )


def _left_out(source: Source, edit: Edit) -> list[Caveat]:
    """Warns that a statement of another file, which a self-contained copy is not, stays enabled."""
    if edit.kind is not Kind.DISABLE or edit.at is None:
        return []
    text = (
        f"This statement stays, because the copy is of another file ({edit.reason}); "
        "`instrument run` edits both."
    )
    return [Caveat("other-file", text, place=source.at(edit.at.line))]


def _without_conflicts(edits: list[Edit]) -> tuple[Edit, ...]:
    """A statement is disabled once, and one that is disabled is not moved as well."""
    disabled: dict[tuple[Path, object], Edit] = {}
    for edit in edits:
        if edit.kind is Kind.DISABLE:
            disabled.setdefault((edit.file, edit.at), edit)
    return tuple(
        edit
        for edit in edits
        if edit.kind not in (Kind.DISABLE, Kind.MOVE_AFTER)
        or disabled.get((edit.file, edit.at), edit) is edit
    )


def _fresh_name(located: Located) -> str:
    """A name for the recorder which, as that of its factory, no file of the program uses."""
    # A substring search is 20 times as fast as the expression, and libraries may be read.
    texts = [s.data for s in located.program.sources.values() if b"_instrument" in s.data]
    used = {word.decode() for text in texts for word in re.findall(rb"\b_instrument\w*", text)}
    names = chain(["_instrument"], (f"_instrument_{number}" for number in count(2)))
    return next(
        name for name in names if used.isdisjoint((name, f"{name}_recorder", batch_of(name)))
    )


def _last_line(end: ast.stmt, ends: Sequence[ast.stmt]) -> int:
    """The last line that is timed up to an end: of a block that holds another one, up to that."""
    found = [
        next((e for e in ends if e is not end and any(contains(s, e) for s in suite)), suite[-1])
        for suite in suites(end)
    ]
    return max(last.end_lineno or last.lineno for last in found or [end])


def _timed(located: Located) -> TimedLines:
    """From the first start to the last end, behind which a statement may stand on its line."""
    source = located.regions[0].candidate.source
    ends = [e.after for r in located.regions for e in r.ends]
    last = max(ends, key=lambda end: (end.end_lineno or 0, end.end_col_offset or 0))
    line, column = last.end_lineno, last.end_col_offset or 0
    shared = any(s.lineno == line and s.col_offset >= column for s in source.places)
    return TimedLines(
        file=str(source.path),
        start_line=min(s.lineno for r in located.regions for s in r.starts),
        end_line=max(_last_line(end, ends) for end in ends),
        up_to=ast.unparse(last) if shared else None,
    )


def explain_located(located: Located) -> dict[str, Any]:
    """The documented description of a located loop; lines are of the original files."""
    candidate = located.candidate
    source, loop = candidate.source, candidate.loop
    region, forward = located.regions[0], located.regions[0].forward
    stop = located.stop
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
        region=_timed(located),
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
    if site is None:
        return None
    seen = next(s for s in located.candidate.sites if s.backward is site.backward)
    return Call(line=seen.statement.lineno) if seen.chain and not _spelled(seen) else None


def _lines(located: Located, what: str) -> tuple[int, ...]:
    return tuple(sorted({s.statement.lineno for s in located.skipped if s.what == what}))


def explain_declined(declined: Declined) -> dict[str, Any]:
    """The same document for a script that is declined."""
    reasons = [
        Reason(file=str(r.file), line=r.line, kind=r.kind, message=r.message, remedy=r.hint)
        for r in declined.reasons
    ]
    return PlanDocument(reasons=tuple(reasons)).to_json()
