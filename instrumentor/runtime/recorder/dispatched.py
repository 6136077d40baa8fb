"""Ops as they go through torch's dispatcher, on whichever thread autograd runs them."""

import sys
from importlib import import_module
from typing import Any, Callable

#: Told of each call: the op, its arguments, its result, and the frame that called it.
SeenOp = Callable[[Any, Any, Any, Any, Any], None]


def enter_dispatch(seen: SeenOp) -> Any:
    """A dispatch mode that is in force from now on; None where this torch has none.

    Not in a process that uses torch.compile: under a dispatch mode it would not compile.
    """
    try:
        base: Any = import_module("torch.utils._python_dispatch").TorchDispatchMode
        inference = import_module("torch._C").is_inference_mode_enabled
    except (ImportError, AttributeError):
        return None

    def dispatched(mode: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named = kwargs or {}
        # What torch takes apart by itself, but not in inference mode. Elsewhere a kernel of the
        # op's own may round in another way than its parts: the script's losses would change.
        if inference() and hasattr(func, "decompose"):
            with mode:
                out = func.decompose(*args, **named)
            if out is not NotImplemented:
                return out
        out = func(*args, **named)
        seen(func, args, named, out, sys._getframe().f_back)
        return out

    members = {"__torch_dispatch__": dispatched, "supports_higher_order_operators": True}
    mode = type("Mode", (base,), members)()
    mode.__enter__()
    return mode


def leave_dispatch(mode: Any) -> None:
    """End it, unless the script has one of its own on top."""
    if import_module("torch.utils._python_dispatch")._get_current_dispatch_mode() is mode:
        mode.__exit__(None, None, None)


def op_name(func: Any) -> str:
    """``aten::add``, without the overload."""
    return str(func.name()).partition(".")[0]
