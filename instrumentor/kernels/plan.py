"""Exactly one invocation: which one, and the edits that leave the others without effect.

Every kernel is put behind a gate where it is defined, so that calls which no analysis can see
(a kernel handed to a helper, a table of kernels) are skipped as well; every visible call says
where it stands, so that the gate knows the chosen one. A held-back call gives back the argument
that it would have written.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from instrumentor.edits import Edit, Kind, Statement
from instrumentor.errors import UsageError
from instrumentor.kernels.find import find_kernels
from instrumentor.kernels.gate import WATCH, call_text, gate_text, watch_text
from instrumentor.kernels.model import Found, Invocation, Kernel, Site, invocation_json, kernel_json
from instrumentor.locate.model import Declined, Reason
from instrumentor.locate.syntax import Source, address
from instrumentor.project import Project, find_project

SCHEMA = "instrument-kernel-plan/1"


@dataclass(frozen=True)
class Choice:
    """What the user asks for: a kernel's name (or ``factory.name``) and the number of a call."""

    kernel: str = ""
    call: int | None = None


@dataclass(frozen=True)
class KernelPlan:
    """One invocation and what leaves only that one.

    Attributes:
        invocation: the chosen one; None when no call of the kernel is visible, and the first one
            at run time counts.
        path: numbers of the sites that lead to it; None for the first call at run time.
        edits: by file, in the order of the file.
        held_back: the other invocations of all kernels.
        warnings: what a reader of the measurement should know.
    """

    project: Project
    found: Found
    kernel: Kernel
    invocation: Invocation | None
    path: tuple[int, ...] | None
    edits: Mapping[Path, tuple[Edit, ...]]
    held_back: tuple[Invocation, ...]
    warnings: tuple[str, ...]

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
            "warnings": [*self.found.warnings, *self.warnings],
        }


def found_json(found: Found) -> dict[str, Any]:
    """What a script holds, as JSON types."""
    return {
        "schema": SCHEMA,
        "script": str(found.script),
        "kernels": [kernel_json(kernel) for kernel in found.kernels],
        "invocations": [invocation_json(invocation) for invocation in found.invocations],
        "tensors": [{**vars(tensor), "shape": list(tensor.shape)} for tensor in found.tensors],
    }


def make_plan(script: Path, choice: Choice) -> KernelPlan:
    """Find, choose and plan; nothing is written.

    Raises:
        UsageError: the script cannot be read, or the choice names nothing.
        Declined: no kernel, or several between which only the user can choose.
    """
    project = find_project(script)
    return plan_for(project, find_kernels(script, project.import_roots), choice)


def plan_for(project: Project, found: Found, choice: Choice) -> KernelPlan:
    """The plan for what was found; see :func:`make_plan`."""
    kernel = choose_kernel(found, choice)
    invocation = _choose_call(found, kernel, choice)
    _refuse_lost_results(found, kernel, invocation)
    numbers = {site: number for number, site in enumerate(_numbered(found), 1)}
    path = None if invocation is None else tuple(numbers[s] for s in invocation.told_apart)
    if invocation is not None:
        for site in invocation.told_apart:
            _refuse_unwrappable(site)
    held_back = tuple(i for i in found.invocations if i is not invocation)
    edits = {
        source.path: tuple(_edits(source, found, numbers, kernel, path, invocation))
        for source in found.sources
    }
    return KernelPlan(
        project,
        found,
        kernel,
        invocation,
        path,
        {file: some for file, some in edits.items() if some},
        held_back,
        tuple(_warnings(found, kernel, invocation)),
    )


def choose_kernel(found: Found, choice: Choice) -> Kernel:
    """The kernel that is named, or the only one that is invoked.

    Raises:
        UsageError: no kernel has that name, or several have.
        Declined: none is named and it is not clear which one is meant.
    """
    if not found.kernels:
        raise Declined(
            Reason(
                found.script,
                1,
                "no-kernel",
                "no @ttl.kernel or @ttl.operation in this script or in what it imports from its "
                "project",
                "Give the script that defines or imports the kernel.",
            )
        )
    if choice.kernel:
        return _named(found, choice.kernel)
    invoked = [k for k in found.kernels if found.of(k)]
    invoked = invoked or [k for k in found.kernels if k not in found.composed]
    invoked = invoked or list(found.kernels)
    if len(invoked) == 1:
        return invoked[0]
    names = ", ".join(f"{k.qualified} (line {k.line})" for k in invoked)
    raise Declined(
        Reason(
            found.script,
            invoked[0].line,
            "several-kernels",
            f"several kernels are invoked: {names}; one run can profile only one of them",
            f"Choose one: --kernel {invoked[0].qualified}.",
        )
    )


def _named(found: Found, name: str) -> Kernel:
    matches = [k for k in found.kernels if k.qualified == name]
    matches = matches or [k for k in found.kernels if name in (k.name, k.bound)]
    known = ", ".join(k.qualified for k in found.kernels)
    if not matches:
        raise UsageError(f"--kernel {name}: there is no such kernel", f"There are: {known}.")
    if len(matches) > 1:
        raise UsageError(f"--kernel {name}: several have this name", f"Give one of: {known}.")
    return matches[0]


def _choose_call(found: Found, kernel: Kernel, choice: Choice) -> Invocation | None:
    invocations = found.of(kernel)
    if choice.call is None:
        return invocations[0] if invocations else None
    if not 1 <= choice.call <= len(invocations):
        raise UsageError(
            f"--call {choice.call}: {kernel.qualified} has {len(invocations)} visible invocations",
            "See them with `instrument kernel explain`.",
        )
    return invocations[choice.call - 1]


def _refuse_lost_results(found: Found, kernel: Kernel, chosen: Invocation | None) -> None:
    """Decline when a held-back call's result is used and nothing can stand for it."""
    for invocation in found.invocations:
        leaf = invocation.leaf
        if (invocation is chosen and not invocation.loops) or not _is_used(leaf):
            continue
        reason = ""
        if invocation.kernel.returns is None:
            reason = "the kernel returns something that only running it can make"
        elif not leaf.call.args and not leaf.call.keywords:
            reason = "it has no argument that could stand for its result"
        if reason:
            raise Declined(
                Reason(
                    leaf.source.path,
                    leaf.line,
                    "result-used",
                    f"only one call of a kernel can run, and the result of this call of "
                    f"{invocation.kernel.qualified} is used: {reason}",
                    "Pass the output tensor as the last argument, or take the other calls out of "
                    "the script that is profiled.",
                )
            )


def _is_used(site: Site) -> bool:
    statement = site.statement
    return not (isinstance(statement, ast.Expr) and statement.value is site.call)


def _refuse_unwrappable(site: Site) -> None:
    if _wrappable(site):
        return
    raise Declined(
        Reason(
            site.source.path,
            site.line,
            "compound-header",
            "the call stands in an f-string or in the header of a compound statement, which is not "
            "rewritten",
            "Put the call into a statement of its own, before this one.",
        )
    )


def _wrappable(site: Site) -> bool:
    # Before Python 3.12 positions inside an f-string are not those of the file.
    strings = [n for n in ast.walk(site.statement) if isinstance(n, ast.JoinedStr)]
    if any(node is site.call for string in strings for node in ast.walk(string)):
        return False
    return isinstance(
        site.statement,
        (ast.Expr, ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Return, ast.Assert, ast.Raise),
    )


def _numbered(found: Found) -> list[Site]:
    """All sites that are told apart, in source order of the files."""
    sites = {site for invocation in found.invocations for site in invocation.told_apart}
    order = {source.path: at for at, source in enumerate(found.sources)}
    return sorted(sites, key=lambda s: (order[s.source.path], s.line, s.call.col_offset))


def _edits(
    source: Source,
    found: Found,
    numbers: Mapping[Site, int],
    kernel: Kernel,
    path: tuple[int, ...] | None,
    chosen: Invocation | None,
) -> Iterator[Edit]:
    # What is only part of another kernel stays as tt-lang made it: it is looked at, not called.
    parts = {k for k in found.composed if not found.of(k)}
    kernels = [k for k in found.kernels if k.source is source and k not in parts]
    sites = [s for s in numbers if s.source is source and _wrappable(s)]
    if not kernels and not sites:
        return
    yield Edit(
        Kind.PRELUDE,
        None,
        gate_text(kernel.qualified, path),
        pass_name="gate",
        reason="lets one invocation through, counts and records all of them",
    )
    for one in kernels:
        yield Edit(
            Kind.INSERT_AFTER,
            address(one.statement),
            watch_text(one),
            pass_name=WATCH,
            reason=f"{one.qualified} goes behind the gate",
        )
    yield from _call_edits(source, sites, numbers, chosen)


def _call_edits(
    source: Source,
    sites: Sequence[Site],
    numbers: Mapping[Site, int],
    chosen: Invocation | None,
) -> Iterator[Edit]:
    by_statement: dict[Statement, list[Site]] = {}
    for site in sites:
        by_statement.setdefault(address(site.statement), []).append(site)
    for where, group in sorted(by_statement.items()):
        yield Edit(
            Kind.DISABLE,
            where,
            call_text(source, group, numbers),
            pass_name="calls",
            reason=_reason(group, chosen),
        )


def _reason(group: Sequence[Site], chosen: Invocation | None) -> str:
    if chosen is None:
        return "says where it stands; the first call at run time is let through"
    if chosen.leaf in group:
        once = ", once" if chosen.loops else ""
        return f"invocation {chosen.number} of {chosen.kernel.qualified}: the one that runs{once}"
    if any(site in chosen.told_apart for site in group):
        return "leads to the invocation that runs"
    return "skipped: does nothing, returns its output argument"


def _warnings(found: Found, kernel: Kernel, chosen: Invocation | None) -> Iterator[str]:
    if chosen is None:
        yield (
            f"no call of {kernel.qualified} is visible (it is handed on): the first one at run "
            "time is profiled"
        )
        return
    others = len(found.of(kernel)) - 1
    if others:
        yield (
            f"invocation {chosen.number} of {others + 1} of {kernel.qualified} is profiled; "
            "another with --call N"
        )
    if chosen.loops:
        file, line, text = chosen.loops[0]
        yield (
            f"{file.name}:{line} ({text}) repeats the call: it runs once, in the first iteration "
            "that comes to it"
        )
    for producer, consumer, tensor in chained(found):
        if consumer is chosen:
            yield (
                f"line {producer.leaf.line} ({producer.kernel.qualified}) is skipped, and "
                f"{tensor} is read by the profiled call: its content is not computed, which "
                "matters only to a kernel whose work depends on values"
            )


def chained(found: Found) -> Iterator[tuple[Invocation, Invocation, str]]:
    """Invocations of two kernels of which the first writes what the second reads, and its name."""
    for producer in found.invocations:
        for consumer in found.invocations:
            same_file = producer.leaf.source is consumer.leaf.source
            if producer.kernel is consumer.kernel or not same_file:
                continue
            if producer.leaf.line < consumer.leaf.line:
                for name in sorted(_output_of(producer) & _inputs_of(consumer)):
                    yield producer, consumer, name


def _output_of(invocation: Invocation) -> set[str]:
    last = invocation.leaf.call.args[-1:] or [k.value for k in invocation.leaf.call.keywords[-1:]]
    return {argument.id for argument in last if isinstance(argument, ast.Name)}


def _inputs_of(invocation: Invocation) -> set[str]:
    inputs = invocation.leaf.call.args[:-1]
    return {n.id for a in inputs for n in ast.walk(a) if isinstance(n, ast.Name)}
