"""Opens the clock before the forward and closes it after the barrier; notes the loop's entry."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from msgspec.structs import replace

from instrumentor.locate.located import Located
from instrumentor.locate.region.barrier_hints import item_names
from instrumentor.locate.region.fetched import without
from instrumentor.locate.region.modes import Region
from instrumentor.plan.passes.entered import entered
from instrumentor.read.syntax import LOOPS, Source, address
from instrumentor.shared.edits import Edit, Kind


def entry(located: Located, recorder: str) -> Iterator[tuple[Source, Edit]]:
    """Notes that the body of the loop is entered, where the region does not begin with it.

    What comes before is the next batch; what comes after prepares it. The loop's item is looked at
    here where the region begins in a function that it may be given to.
    """
    candidate = located.candidate
    if not isinstance(candidate.loop, LOOPS):  # lines that the user names
        return
    first = candidate.loop.body[0]
    if any(region.begin is first for region in located.regions):
        return
    names = item_names(candidate.knowledge, candidate) if _in_helpers(located) else []
    item = ", ".join(name for name in names if name not in ("_", "self"))
    why = "notes that the next batch is there"
    at = address(first)
    yield candidate.source, Edit(Kind.INSERT_BEFORE, at, f"{recorder}.enter({item})", reason=why)


def _in_helpers(located: Located) -> bool:
    """Whether the regions begin in functions that the loop calls, once in an iteration each."""
    return all(
        not (each.batch or each.fetch or each.begin in located.candidate.flow.begins)
        and not each.candidate.source.loops_around(each.begin)
        for each in located.regions
    )


def region(located: Located, recorder: str) -> Iterator[tuple[Source, Edit]]:
    """One begin per distinct start, one end per place where a region closes."""
    begun: set[ast.stmt] = set()
    for each in located.regions:
        source = each.candidate.source
        for start in each.starts:
            if start not in begun:
                begun.add(start)
                yield from ((source, edit) for edit in _begun(each, start, recorder))
        inputs = entered(each)
        for end in each.ends:
            given = [
                *each.hints,
                f'label="{end.label}"' if end.label != "fwd+bwd" else "",
                f"batch=[{', '.join(inputs)}]" if inputs else "",
                f"synced={end.synced}" if end.synced else "",
            ]
            why = "syncs, waits for the device, reads the clock, sets a signpost"
            if end.synced:
                why = "waits for the device after the script's own sync, reads the clock"
            code = f"{recorder}.end({', '.join(filter(None, given))})"
            at = address(source.whole_if(end.after))
            yield source, Edit(Kind.INSERT_AFTER, at, code, reason=why)


def batch_of(recorder: str) -> str:
    """The name of a batch that is fetched ahead of the clock."""
    return f"{recorder}_batch"


def _begun(region: Region, start: ast.stmt, recorder: str) -> Iterator[Edit]:
    """The begin; ahead of it the fetch that the first statement of the region makes."""
    if region.fetch is None:
        yield _begin(region, start, recorder)
        return
    at, name = address(start), batch_of(recorder)
    why = "fetches the batch ahead of the clock, which the forward's own statement did"
    yield Edit(Kind.INSERT_BEFORE, at, f"{name} = {ast.unparse(region.fetch)}", reason=why)
    yield _begin(replace(region, batch=region.batch or (name,)), start, recorder)
    why = "takes the batch that has been fetched"
    yield Edit(Kind.DISABLE, at, without(start, region.fetch, name), reason=why)
    yield Edit(Kind.INSERT_AFTER, at, f"del {name}", reason="lives no longer than the script's own")


def _begin(region: Region, start: ast.stmt, recorder: str) -> Edit:
    resume = "resume=True" if region.resume else ""
    when = f"when={region.when}" if region.when else ""
    code = f"{recorder}.begin({', '.join(filter(None, (*region.batch, resume, when)))})"
    why = "sets a signpost and starts the clock, ahead of the forward"
    if region.when:
        why += ", in the iterations that train"
    return Edit(Kind.INSERT_BEFORE, address(start), code, reason=why)
