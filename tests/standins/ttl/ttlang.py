"""Stand-in: the newer name of the same package."""

from ttl import *  # noqa: F403
from ttl import (  # noqa: F401
    make_circular_buffer_like,
    make_dataflow_buffer_like,
)
