"""Opens the clock before the forward and closes it after the barrier."""

from __future__ import annotations

from collections.abc import Iterator

from instrumentor.edits import Edit, Kind
from instrumentor.locate.model import Located
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
        for end in region.ends:
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
