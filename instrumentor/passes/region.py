"""Opens the clock before the forward and closes it after the barrier."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from instrumentor.edits import Edit, Kind
from instrumentor.locate.model import Located
from instrumentor.locate.modes import End
from instrumentor.locate.regions import Region, sync_in_helper
from instrumentor.locate.syntax import Source, address
from instrumentor.options import Options
from instrumentor.passes.entered import entered
from instrumentor.passes.names import Names

NAME = "region"


def edits(located: Located, names: Names, options: Options) -> Iterator[tuple[Source, Edit]]:
    """One begin per distinct start, one end per place where a region closes."""
    begun: set[object] = set()
    for region in located.regions:
        source = region.candidate.source
        if region.begin not in begun:
            begun.add(region.begin)
            arguments = [*region.batch, *(["resume=True"] if region.resume else [])]
            arguments += [f"when={region.when}"] if region.when else []
            yield (
                source,
                Edit(
                    Kind.INSERT_BEFORE,
                    address(region.begin),
                    f"{names.recorder}.begin({', '.join(arguments)})",
                    reason="signpost and clock, before the forward"
                    + (", in the iterations that train" if region.when else ""),
                ),
            )
        inputs = entered(region)
        for end in ends_of(located, region):
            arguments = list(region.hints)
            if end.label != "fwd+bwd":
                arguments.append(f'label="{end.label}"')
            if inputs:
                arguments.append(f"batch=[{', '.join(inputs)}]")
            if end.synced:
                arguments.append(f"synced={end.synced}")
            yield (
                source,
                Edit(
                    Kind.INSERT_AFTER,
                    address(source.whole_if(end.after)),
                    f"{names.recorder}.end({', '.join(arguments)})",
                    reason=(
                        "waits for the device after the script's own sync, reads the "
                        "clock, signpost"
                        if end.synced
                        else "syncs, waits for the device, reads the clock, signpost"
                    ),
                ),
            )


def ends_of(located: Located, region: Region) -> tuple[End, ...]:
    """All places that close a region."""
    in_helper = region.sync.action == "keep" and sync_in_helper(region)
    ends = (End(region.end, region.label), *region.other_ends)
    return tuple(replace(e, synced=_synced(located, region, e, in_helper=in_helper)) for e in ends)


def _synced(located: Located, region: Region, end: End, *, in_helper: bool) -> str:
    if in_helper or (region.helper_syncs and end.label != "fwd+bwd"):
        return "True"
    return located.knowledge.sync_condition(region.candidate.source, end.after) or ""
