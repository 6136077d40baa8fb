"""Lightning's `manual_backward`: the step is called from a loop of Lightning's own."""

from __future__ import annotations

from collections.abc import Iterator

from instrumentor.locate.knowledge import Knowledge
from instrumentor.locate.loops import Candidate
from instrumentor.locate.model import Reason
from instrumentor.locate.rules.common import OWN_LOOP
from instrumentor.locate.syntax import callee


def reasons(knowledge: Knowledge, candidate: Candidate) -> Iterator[Reason]:
    for site in candidate.sites:
        if callee(site.backward) == "manual_backward":
            yield Reason(
                site.backward_source.path,
                site.backward.lineno,
                "lightning",
                "manual_backward: Lightning calls this step from its own loop",
                OWN_LOOP,
            )
