"""Why a chosen loop is declined: one function for each reason, in the order in which they are told.

In: a candidate loop; out: the reasons against it.

A rule looks at a candidate and yields reasons; nothing is instrumented as long as one stands.
What stands against a region, which is known only later, is in `regions`; why there is no loop at
all in `no_loop`; packages that hold the loop in `frameworks`. What is said of each is a class with
an example (`decline`), also where another room finds it; `declines` lists them all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

from instrumentor.locate.located import Reason
from instrumentor.locate.loop.loops import Candidate
from instrumentor.locate.rules.closures import closure
from instrumentor.locate.rules.compiled_step import compiled_step
from instrumentor.locate.rules.frameworks import foreign_runtime, manual_backward
from instrumentor.locate.rules.own_process import own_process
from instrumentor.locate.rules.shape import (
    asynchronous,
    conditional_step,
    generator,
    gradients_unseen,
    line_search,
)

RULES: tuple[Callable[[Candidate], Iterator[Reason]], ...] = (
    foreign_runtime,
    closure,
    generator,
    compiled_step,
    line_search,
    own_process,
    conditional_step,
    gradients_unseen,
    asynchronous,
    manual_backward,
)


def reasons_against(candidate: Candidate) -> Iterator[Reason]:
    """The first reason of every rule against a loop."""
    for rule in RULES:
        yield from islice(rule(candidate), 1)
