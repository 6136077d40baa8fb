"""What a step has made on its device: its loss, the tensors it trains, and how a part is read."""

import itertools
from typing import Any, Dict, Iterable, List, Optional

from instrumentor.runtime.recorder.graph import read_graph

#: Elements up to which a tensor is read whole; of others one element, which is an op more.
WHOLE = 1024


def is_module(value: Any) -> bool:
    """Whether a value has parameters of its own, as a model does."""
    return callable(getattr(type(value), "parameters", None))


def device_type(value: Any) -> Optional[str]:
    """The type of the device that holds a tensor; None for what is no tensor."""
    kind = getattr(getattr(value, "device", None), "type", None)
    return kind if isinstance(kind, str) and hasattr(value, "dtype") else None


def inside(value: Any, parameters: Optional[int] = 8) -> Iterable[Any]:
    """What a value holds: a module's parameters, items, or what its attributes hold."""
    if isinstance(value, (type, type(itertools))):
        return ()
    if is_module(value):
        return itertools.islice(value.parameters(), parameters)
    if isinstance(value, dict):
        return list(value.values())
    if isinstance(value, (list, tuple)):
        return value
    return list((getattr(value, "__dict__", None) or {}).values())


def device_holding(value: Any) -> Optional[str]:
    """The accelerator that holds a part of a value, else "cpu" if that does, else None."""
    found, parts = None, [value]
    for part in parts:  # grows by what the part holds: the nearest come first
        kind = device_type(part)
        if kind is not None and not is_module(part):
            if kind not in ("cpu", "meta"):
                return kind
            found = "cpu" if kind == "cpu" else found
        elif len(parts) < 400:
            parts.extend(itertools.islice(inside(part), 64))
    return found


def loss_among(values: Iterable[Any], kind: str) -> Any:
    """The first tensor on a device that is given itself, or as a `loss`; None without one."""
    for value in values:
        if isinstance(value, dict):
            value = value.get("loss")
        value = value if is_tensor_on(value, kind) else getattr(value, "loss", None)
        if is_tensor_on(value, kind) and not is_module(value):
            return value
    return None


def is_tensor_on(value: Any, kind: str) -> bool:
    """Whether a value is a tensor on a device of that type, and can be read."""
    return device_type(value) == kind and callable(getattr(value, "cpu", None))


def trained(values: Iterable[Any], kind: Optional[str] = None) -> List[Any]:
    """Leaves of autograd, on one device: those the loss was made of, those of modules around."""
    found: Dict[int, Any] = {}
    parts = list(values)
    for part in parts:  # grows by what the part holds
        if device_type(part) is None or is_module(part):
            first = part[0] if isinstance(part, list) and part else None
            whole = is_module(part) or device_type(first) is not None  # as an optimizer's list
            if whole or len(parts) < 400:
                parts.extend(itertools.islice(inside(part, None), None if whole else 64))
            continue
        for leaf in leaves_of(part):
            if device_type(leaf) is not None and kind in (None, device_type(leaf)):
                found.setdefault(id(leaf), leaf)
    return list(found.values())


def leaves_of(tensor: Any) -> Iterable[Any]:
    """Leaves that a tensor was made of by autograd, or the tensor when it is one."""
    if getattr(tensor, "grad_fn", None) is None:
        return [tensor] if getattr(tensor, "requires_grad", False) else []
    return read_graph([tensor]).leaves


def read(tensor: Any) -> None:
    """Read a tensor to the host, or of a large one its first element."""
    tensor = tensor.detach()
    if hasattr(tensor, "to_local"):  # a DTensor, of which an element may have to be gathered first
        tensor = tensor.to_local()
    if tensor.numel() > WHOLE:
        flat = tensor.is_contiguous()
        tensor = tensor.view(-1)[:1] if flat else tensor[(0,) * tensor.dim()]
    tensor.cpu()


def read_all(tensors: Iterable[Any]) -> None:
    """Read a part of each tensor and of its gradient."""
    for tensor in tensors:
        gradient = getattr(tensor, "grad", None) if getattr(tensor, "is_leaf", False) else None
        for each in (gradient, tensor):
            if each is not None and each.numel():
                read(each)
