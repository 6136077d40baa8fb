"""Memory of this process on the host."""

import os
import sys
from functools import lru_cache
from typing import Optional, Tuple


@lru_cache(None)
def own_statm() -> Tuple[int, int]:
    """What the kernel says of this process's memory, opened once, and the bytes of a page: a step
    may take microseconds."""
    return os.open("/proc/self/statm", os.O_RDONLY), os.sysconf("SC_PAGE_SIZE")


def resident_bytes() -> Optional[int]:
    """What this process has in memory now; None where nothing says."""
    try:
        statm, page = own_statm()
        return int(os.pread(statm, 64, 0).split(None, 2)[1]) * page
    except (OSError, ValueError, IndexError, AttributeError):  # another system
        return None


def peak_resident() -> Optional[int]:
    """The most memory that this process has had on the host, bytes; None where nothing says."""
    try:
        import resource
    except ImportError:  # not on Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
