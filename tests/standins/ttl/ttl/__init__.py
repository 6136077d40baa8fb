"""Stand-in for tt-lang: runs a kernel's thread functions once, with made-up cycles.

It stands for tt-lang's own profilers on a device, of which tt-lang-sim has none: what they print,
their device log and their ways to fail. What can be told without them is tested on tt-lang-sim
(tests/kernels/test_simulate.py).

One core is run, as Python threads over bounded queues, so that a kernel that would hang hangs
here too (and is ended after a second). What is printed has the shape of tt-lang's own output and
depends on the same environment variables. ``STANDIN_TTL`` injects failures, comma separated:

    old         the older spellings and layouts
    fail        the kernel raises
    die         the process ends in the middle of its output
    silent      nothing is printed
    twice       the output is printed twice, as after a second call
    drop        markers are dropped from the device log
"""

from ttl import _show
from ttl._core import Buffer, Run, current, options

__all__ = [
    "compute",
    "copy",
    "core",
    "datamovement",
    "grid_size",
    "kernel",
    "make_circular_buffer_like",
    "make_dataflow_buffer_like",
    "node",
    "operation",
    "signpost",
]

print("[stand-in ttl] no hardware, no tt-lang: all cycles are made up")


def operation(grid=None, **settings):
    """The kernel decorator."""

    def decorate(function):
        def call(*tensors, **named):
            return _execute(function, grid, tensors, named)

        call.__name__ = function.__name__
        return call

    return decorate


kernel = operation


def _execute(function, grid, tensors, named):
    if "fail" in options():
        raise RuntimeError(f"TT_FATAL: kernel {function.__name__} could not be compiled")
    size = grid(*tensors, **named) if callable(grid) else grid
    size = (8, 8) if size in ("auto", "full", None) else size
    run = Run(function, size)
    with run:
        function(*tensors, **named)
        run.execute()
    _show.after(run)
    return tensors[-1]


def compute():
    return lambda function: current().add(function, "compute")


def datamovement():
    return lambda function: current().add(function, "datamovement")


def make_dataflow_buffer_like(tensor, shape=(1, 1), buffer_factor=2):
    return current().buffer(Buffer(shape, buffer_factor))


make_circular_buffer_like = make_dataflow_buffer_like


def copy(source, target):
    return current().copy(source, target)


def grid_size(dims=2):
    return current().grid


def core(dims=2):
    return (0,) * dims


node = core


def signpost(name):
    return current().signpost(name)
