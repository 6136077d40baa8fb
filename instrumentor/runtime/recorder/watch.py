"""Tells when a backward, an optimizer step or an evaluation runs, and from where.

No hook of a module or an optimizer: torch.compile guards on those and would compile again when
they are taken off. What is replaced for a while is what it never looks into: the function that
enters the autograd engine, and the profiler's mark that every optimizer sets around its step.
"""

import os
import re
import sys
from typing import Any, Callable, Iterable, List, NamedTuple, Set, Tuple

Place = Tuple[str, int, str]  # file, line, function

FRAME = re.compile(r'\s*File "(.*)", line (\d+), in (.*)')
LIBRARIES = tuple(os.sep + name + os.sep for name in ("site-packages", "dist-packages"))
STANDARD = os.path.dirname(os.__file__) + os.sep
WEIGHTED = ("linear", "conv1d", "conv2d", "conv3d", "embedding")  # of torch.nn.functional
STEP = "Optimizer.step#"


class Event(NamedTuple):
    """Something that ran: backward, gradient, step, eval, train or forward."""

    kind: str
    places: List[Place]
    about: Any  # outputs of a backward or a forward; an optimizer; a module
    nested: bool  # within a backward


class Watch:
    """Replaces functions of torch between `on` and `off`, and hands on what it sees."""

    def __init__(self, tell: Callable[[Event], None]) -> None:
        self.tell = tell
        self.undo: List[Tuple[Any, str, Any, Any]] = []
        self.forwards = False  # whether forwards are told, where they are watched
        self.depth = 0
        self.weights: Set[int] = set()  # ids of tensors that are trained

    def on(self) -> None:
        """Watch backwards, steps and modules that are switched to evaluation and back."""
        torch = sys.modules["torch"]
        self.on_backwards()
        # torch sets it around the step of every subclass, also around a compiled one.
        self.replace(torch.autograd.profiler.record_function, "__enter__", self.mark)
        self.replace(torch.nn.Module, "train", self.mode)

    def on_backwards(self) -> None:
        """Watch backwards alone."""
        torch = sys.modules["torch"]
        if hasattr(torch.autograd, "_engine_run_backward"):
            self.replace(torch.autograd, "_engine_run_backward", self.backward)
        else:
            self.replace(torch.autograd.Variable, "_execution_engine", self.engine)

    def on_forwards(self) -> None:
        """Watch forwards of layers with weights, where nothing is compiled or meant to be."""
        torch = sys.modules["torch"]
        compiler = sys.modules.get("torch._dynamo.eval_frame")
        backends = getattr(compiler, "cached_backends", {}).values()
        if not any(backend is not None for backend in backends):
            for name in WEIGHTED:
                self.replace(torch.nn.functional, name, self.weighted)

    def off(self) -> None:
        """Put everything back, in reverse."""
        self.weights = set()
        while self.undo:
            owner, name, real, ours = self.undo.pop()
            # Someone else may have wrapped our function meanwhile: that stays in place.
            if getattr(owner, name, None) is ours:
                setattr(owner, name, real)

    def replace(self, owner: Any, name: str, around: Callable[[Any], Any]) -> None:
        """Put a function around another one."""
        real = getattr(owner, name, None)
        if real is not None:
            ours = around(real)
            # Otherwise torch.compile would trace into it where compiled code calls it.
            never_compiled = getattr(sys.modules.get("torch._dynamo"), "disable", None)
            if callable(ours) and never_compiled is not None:
                ours = never_compiled(ours)
            setattr(owner, name, ours)
            self.undo.append((owner, name, real, ours))

    def backward(self, real: Any) -> Any:
        """Around torch.autograd's entry into the engine."""

        def instrument_backward(tensors: Any, *args: Any, **kwargs: Any) -> Any:
            kind = "backward" if kwargs.get("accumulate_grad") else "gradient"
            places = places_of(caller())
            self.tell(Event(kind, places, tensors, self.depth > 0))
            self.depth += 1
            try:
                return real(tensors, *args, **kwargs)
            finally:
                self.depth -= 1
                self.tell(Event(kind + " done", places, None, self.depth > 0))

        return instrument_backward

    def engine(self, real: Any) -> Any:
        """The same where the engine is an object (before torch 2.2)."""
        return Engine(real, self.backward(real.run_backward))

    def mark(self, real: Any) -> Any:
        """Around the profiler's marks: an optimizer's step opens one."""

        def instrument_mark(this: Any) -> Any:
            if str(this.name).startswith(STEP):
                frame = caller()
                about = optimizer_in(frame)
                self.tell(Event("step", places_of(frame), about, self.depth > 0))
            return real(this)

        return instrument_mark

    def mode(self, real: Any) -> Any:
        """Around Module.train, which Module.eval calls as well; of a module's own, not of all its
        children."""

        def instrument_mode(this: Any, mode: bool = True) -> Any:
            frame = caller()
            if frame.f_code.co_name != "train" or "children" not in frame.f_code.co_names:
                kind = "train" if mode else "eval"
                self.tell(Event(kind, places_of(frame), this, self.depth > 0))
            return real(this, mode)

        return instrument_mode

    def weighted(self, real: Any) -> Any:
        """Around a function of torch.nn.functional that takes weights."""
        parameter = sys.modules["torch"].nn.Parameter

        def instrument_function(*args: Any, **kwargs: Any) -> Any:
            result = real(*args, **kwargs)
            if self.forwards and self.depth == 0:
                given = [*args, *kwargs.values()]
                if any(isinstance(e, parameter) or id(e) in self.weights for e in given):
                    self.tell(Event("forward", places_of(caller()), result, False))
            return result

        return instrument_function


def optimizer_in(frame: Any) -> Any:
    """The optimizer whose step set the profiler's mark."""
    return frame.f_locals.get("self") or frame.f_locals["args"][0]


def caller() -> Any:
    """The frame that called a replaced function; those of torch.compile's wrapper and of other
    functions in its place are none."""
    frame: Any = sys._getframe(2)
    while "_dynamo" in frame.f_code.co_filename or frame.f_code.co_name.startswith("instrument_"):
        frame = frame.f_back
    return frame


class Engine:
    """Autograd's engine with another way into its backward."""

    def __init__(self, real: Any, run_backward: Any) -> None:
        self.real = real
        self.run_backward = run_backward

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)


# -- where in the user's own code ------------------------------------------------------------------


def is_users(file: str, function: str) -> bool:
    """Whether code is neither an installed package's, nor Python's own, nor the watch's."""
    if file.startswith(("<", STANDARD)) or function.startswith("instrument_"):
        return False
    return not any(part in file for part in LIBRARIES)


def place_of(frame: Any) -> Place:
    return frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name


def places_of(frame: Any) -> List[Place]:
    """The user's places on a stack, innermost first."""
    found = []
    while frame is not None:
        found.append(place_of(frame))
        frame = frame.f_back
    return [place for place in found if is_users(place[0], place[2])]


def formatted_places(lines: Iterable[str]) -> List[Place]:
    """All places of a formatted stack, which anomaly mode keeps outermost first."""
    matches = [FRAME.match(line) for line in lines]
    found = [(m.group(1), int(m.group(2)), m.group(3).strip()) for m in matches if m is not None]
    return found[::-1]
