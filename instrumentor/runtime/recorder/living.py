"""The objects that are alive in the process, looked through without a trace in the script's heap.

glibc takes the largest block that was ever mapped for itself and given back as its measure: what is
smaller it keeps from then on, and where the script gave its temporaries back to the kernel after
each update, and took the page faults of new ones, it does neither any more.
"""

import gc
from typing import Any, Callable, List

#: Objects looked through at once: their list is smaller than any block that is mapped for itself.
PIECE = 4096


def living(wanted: Callable[[Any], Any]) -> List[Any]:
    """The objects known to the garbage collector for which ``wanted`` is true.

    Their list, of some megabytes, shrinks in place to a page before it is given back.
    """
    every = gc.get_objects()
    found: List[Any] = []
    while every:
        found += filter(wanted, every[-PIECE:])
        del every[-PIECE:]
    return found
