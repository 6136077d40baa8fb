"""Exactly one invocation: which one, and the edits that leave the others without effect.

Every kernel is put behind a gate where it is defined, so that calls which no analysis can see
(a kernel handed to a helper, a table of kernels) are skipped as well; every visible call says
where it stands, so that the gate knows the chosen one. A held-back call gives back the argument
that it would have written.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from itertools import permutations
from pathlib import Path
from typing import Any

from msgspec import Struct

from instrumentor.kernels.choice import (
    choose_call,
    choose_kernel,
    refuse_lost_results,
    refuse_unwrappable,
    wrappable,
)
from instrumentor.kernels.find import find_kernels
from instrumentor.kernels.gate import WATCH, call_text, gate_text, watch_text
from instrumentor.kernels.model import (
    CallSite,
    Found,
    Invocation,
    Kernel,
    invocation_json,
    kernel_json,
)
from instrumentor.kernels.options import Choice
from instrumentor.read.syntax import Source, address
from instrumentor.shared.edits import Edit, Kind, Statement
from instrumentor.shared.project import Project, find_project
from instrumentor_analysis.shared.documents import plain

SCHEMA = "instrument-kernel-plan/1"


class KernelPlan(Struct, frozen=True):
    """One invocation and what leaves only that one.

    Attributes:
        invocation: the chosen one; None when no call of the kernel is visible, and the first one
            at run time counts.
        path: numbers of the sites that lead to it; None for the first call at run time.
        edits: by file, in the order of the file.
    """

    project: Project
    found: Found
    kernel: Kernel
    invocation: Invocation | None
    path: tuple[int, ...] | None
    edits: Mapping[Path, tuple[Edit, ...]]

    @property
    def held_back(self) -> tuple[Invocation, ...]:
        """The other invocations of all kernels."""
        return tuple(i for i in self.found.invocations if i is not self.invocation)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a reader of the measurement should know."""
        return self.warned(others_run=False)

    def warned(self, *, others_run: bool) -> tuple[str, ...]:
        """The same of a run in which the other calls are not held back."""
        told = _warnings(self.found, self.kernel, self.invocation, others_run=others_run)
        return (*self.found.warnings, *told)

    def bound_names(self, path: Path) -> set[str]:
        """Names of a file that the edits bind again: those of its kernels."""
        return {k.bound.partition(".")[0] for k in self.found.kernels if k.source.path == path}

    def to_json(self) -> dict[str, Any]:
        """The document `instrument-kernel-plan/1`."""
        return {
            **found_json(self.found),
            "chosen": {
                "kernel": self.kernel.qualified,
                "invocation": invocation_json(self.invocation) if self.invocation else None,
            },
            "held_back": [invocation_json(i) for i in self.held_back],
            "edits": [
                {
                    "file": str(path),
                    "line": edit.at.line if edit.at else 1,
                    "kind": edit.kind.value,
                    "code": edit.code if edit.kind is not Kind.PRELUDE else "",
                    "reason": edit.reason,
                }
                for path, edits in self.edits.items()
                for edit in edits
            ],
            "warnings": list(self.warnings),
        }


def found_json(found: Found) -> dict[str, Any]:
    """What a script holds, as JSON types."""
    return {
        "schema": SCHEMA,
        "script": str(found.script),
        "kernels": [kernel_json(kernel) for kernel in found.kernels],
        "invocations": [invocation_json(invocation) for invocation in found.invocations],
        "tensors": plain(found.tensors),
    }


def make_plan(script: Path, choice: Choice, *, others_run: bool = False) -> KernelPlan:
    """Find, choose and plan; nothing is written.

    Args:
        others_run: the other calls will not be held back.

    Raises:
        UsageError: the script cannot be read, or the choice names nothing.
        Declined: no kernel, or several between which only the user can choose.
    """
    project = find_project(script)
    found = find_kernels(script, project.import_roots)
    return plan_for(project, found, choice, others_run=others_run)


def plan_for(
    project: Project, found: Found, choice: Choice, *, others_run: bool = False
) -> KernelPlan:
    """The plan for what was found; see :func:`make_plan`."""
    kernel = choose_kernel(found, choice)
    chosen = choose_call(found, kernel, choice)
    if not others_run:
        refuse_lost_results(found, chosen)
    numbers = {site: number for number, site in enumerate(_numbered(found), 1)}
    path = None
    if chosen is not None:
        path = tuple(numbers[site] for site in chosen.told_apart)
        # Calls that get no number are held back by the gate, so only those on the chosen way need
        # one.
        for site in chosen.told_apart:
            refuse_unwrappable(site)
    gate = Edit(
        Kind.PRELUDE,
        None,
        gate_text(kernel.qualified, path),
        pass_name="gate",
        reason="lets one invocation through, counts and records all of them",
    )
    edits = {
        source.path: (gate, *some)
        for source in found.sources
        if (some := [*_watched(source, found), *_calls(source, numbers, chosen)])
    }
    return KernelPlan(project, found, kernel, chosen, path, edits)


def _numbered(found: Found) -> list[CallSite]:
    """All sites that are told apart, in source order of the files."""
    sites = {site for invocation in found.invocations for site in invocation.told_apart}
    order = {source.path: at for at, source in enumerate(found.sources)}
    # The numbers are in the diff that a user reads: they rise with the lines.
    return sorted(sites, key=lambda s: (order[s.source.path], s.line, s.call.col_offset))


def _watched(source: Source, found: Found) -> Iterator[Edit]:
    """The edits that put every kernel of a file behind the gate."""
    for kernel in found.kernels:
        # A kernel that is only a part of another one stays as tt-lang made it, since tt-lang
        # inspects it and never calls it.
        part = kernel in found.composed and not found.of(kernel)
        if kernel.source is source and not part:
            yield Edit(
                Kind.INSERT_AFTER,
                address(kernel.statement),
                watch_text(kernel),
                pass_name=WATCH,
                reason=f"{kernel.qualified} is called through the gate",
            )


def _calls(
    source: Source, numbers: Mapping[CallSite, int], chosen: Invocation | None
) -> Iterator[Edit]:
    """The edits that give each call of a file its number, one for each statement."""
    by_statement: dict[Statement, list[CallSite]] = {}
    for site in numbers:
        if site.source is source and wrappable(site):
            by_statement.setdefault(address(site.statement), []).append(site)
    for where, group in sorted(by_statement.items()):
        code, reason = call_text(source, group, numbers), _reason(group, chosen)
        yield Edit(Kind.DISABLE, where, code, pass_name="calls", reason=reason)


def _reason(group: Sequence[CallSite], chosen: Invocation | None) -> str:
    if chosen is None:
        return "says where the call is; the first one at run time runs"
    if chosen.leaf in group:
        once = ", once" if chosen.loops else ""
        return f"invocation {chosen.number} of {chosen.kernel.qualified}: the one that runs{once}"
    if any(site in chosen.told_apart for site in group):
        return "leads to the invocation that runs"
    return "skipped: does nothing, returns its output argument"


def _warnings(
    found: Found, kernel: Kernel, chosen: Invocation | None, *, others_run: bool
) -> Iterator[str]:
    if chosen is None:
        yield (
            f"no call of {kernel.qualified} is visible (it is handed on): the first one at run "
            "time is profiled"
        )
        return
    if around := chosen.uncalled:
        yield (
            f"nothing calls {around}() in {found.script.name} visibly, where the call of "
            f"{kernel.qualified} stands: as a script it may not come to it"
        )
    others = len(found.of(kernel)) - 1
    if others:
        yield (
            f"invocation {chosen.number} of {others + 1} of {kernel.qualified} is profiled; "
            "another with --call N"
        )
    if chosen.loops:
        file, line, text = chosen.loops[0]
        yield (
            f"{file.name}:{line} ({text}) repeats the call: "
            + ("the first one is profiled" if others_run else "it runs once, in the first ")
            + ("" if others_run else "iteration that comes to it")
        )
    if others_run:
        return
    for producer, consumer, tensor in chained(found):
        if consumer is chosen:
            yield (
                f"line {producer.leaf.line} ({producer.kernel.qualified}) is skipped, and "
                f"{tensor} is read by the profiled call: its content is not computed, which "
                "matters only to a kernel whose work depends on values"
            )


def chained(found: Found) -> Iterator[tuple[Invocation, Invocation, str]]:
    """Invocations of two kernels of which the first writes what the second reads, and its name."""
    for producer, consumer in permutations(found.invocations, 2):
        one, other = producer.leaf, consumer.leaf
        after = one.source is other.source and one.line < other.line
        if after and producer.kernel is not consumer.kernel:
            # The last argument is the output, as tt-lang's kernels have it.
            written = one.call.args[-1:] or [k.value for k in one.call.keywords[-1:]]
            names = {argument.id for argument in written if isinstance(argument, ast.Name)}
            read = {
                node.id
                for argument in other.call.args[:-1]
                for node in ast.walk(argument)
                if isinstance(node, ast.Name)
            }
            for name in sorted(names & read):
                yield producer, consumer, name
