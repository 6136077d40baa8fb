"""What the model of the step is, for its FLOPs: looked at once, after the first sample."""

import sys
from typing import Any, Dict, Iterable, Iterator, List, Optional, Set, Tuple

from instrumentor.runtime.recorder.flops import CompilerReports, Counting
from instrumentor.runtime.recorder.living import living
from instrumentor.runtime.recorder.records import Records
from instrumentor.runtime.recorder.runtimes import RUNTIMES, is_simulated
from instrumentor.runtime.recorder.step_tensors import trained

#: Query projections by the names that libraries give them; packed ones hold key and value as well.
QUERY = ("q_proj", "query", "wq", "to_q", "q_lin", "q")
PACKED = ("qkv", "c_attn", "qkv_proj", "query_key_value", "Wqkv", "in_proj")


class Model:
    """Parameters, attention, device and counted FLOPs of the first sample, as one event."""

    def __init__(self, records: Records) -> None:
        self.records = records
        self.counting: Optional[Counting] = None
        self.reports: Optional[CompilerReports] = None
        self.known = False
        #: Of the first sample, see there.
        self.looked_up: Set[Tuple[int, ...]] = set()

    def begin(self) -> None:
        """Count what runs eagerly in the first sample."""
        if self.known:
            return
        if self.counting is not None:  # the sample before was cancelled
            self.counting.stop()
        self.reports = self.reports or CompilerReports()
        self.counting = Counting()
        self.counting.start()

    def end(self, values: Tuple[Any, ...], rows: Optional[int]) -> None:
        """Write the event behind the first sample, which held so many rows."""
        if self.known or self.counting is None or self.reports is None:
            return
        self.known = True
        counted_flops = self.counting.stop()
        self.looked_up = self.counting.looked_up
        try:
            facts: Dict[str, Any] = described(trained(values))
        except Exception as error:  # a model of the script's own
            self.records.warn("the model cannot be looked at for its FLOPs: %r" % (error,))
            facts = {}
        uncounted = sorted(self.counting.uncounted)
        if (counted_flops or uncounted) and rows:
            facts.update(counted_flops=counted_flops, counted_samples=rows, uncounted=uncounted)
        facts.update(self.reports.close())
        if facts:
            self.records.write("model", **facts, **hardware(), threads=threads())


def described(leaves: List[Any]) -> Dict[str, Any]:
    """The one model that these leaves of autograd are the parameters of; {} for none or several."""
    models = list(models_of(leaves))
    return facts_of(models[0], leaves) if len(models) == 1 else {}


def facts_of(model: Any, leaves: Iterable[Any] = ()) -> Dict[str, Any]:
    """Numbers of parameters and the width of attention.

    Returns:
        ``trainable``, ``frozen``: elements of parameters, those of tied ones once; without the
        tables of embeddings that are only looked up, which are ``looked_up``. ``attention``:
        heads times head dimension, summed over layers. ``sequence_first``, where it is so: a
        layer takes its sequences along the first axis, so that the batch may have them there too.
    """
    torch = sys.modules["torch"]
    modules = list(model.modules())
    owners: Dict[int, List[Any]] = {}
    for module in modules:
        for parameter in module._parameters.values():
            if parameter is not None:
                owners.setdefault(id(parameter), []).append(module)
    learnt = set().union(*map(identities, leaves)) if leaves else set()
    counts = {"trainable": 0, "frozen": 0, "looked_up": 0}
    for parameter in model.parameters():
        held_by = owners.get(id(parameter), [])
        if held_by and all(isinstance(each, torch.nn.Embedding) for each in held_by):
            counts["looked_up"] += parameter.numel()
            continue
        trains = bool(identities(parameter) & learnt) if learnt else parameter.requires_grad
        counts["trainable" if trains else "frozen"] += parameter.numel()
    facts: Dict[str, Any] = {**counts, "attention": attention_width(model, modules)}
    if any(isinstance(m, torch.nn.RNNBase) and not m.batch_first for m in modules):
        facts["sequence_first"] = True
    return facts


def models_of(leaves: List[Any]) -> Iterator[Any]:
    """Modules that are no part of others and hold one of the leaves, itself or its storage."""
    modules = living_modules()
    parts = {id(part) for module in modules for part in module._modules.values()}
    wanted: Set[Any] = set().union(*map(identities, leaves)) if leaves else set()
    for module in modules:
        if id(module) not in parts:
            if any(not wanted or identities(p) & wanted for p in module.parameters()):
                yield module


def living_modules() -> List[Any]:
    """Every torch module of the process."""
    module = getattr(getattr(sys.modules.get("torch"), "nn", None), "Module", None)
    # issubclass of the type: isinstance asks a proxy for its __class__, which may run its code.
    return living(lambda each: issubclass(type(each), module)) if module else []


def identities(tensor: Any) -> Set[Any]:
    """What a tensor shares with a detached copy of it: its storage, where it has one."""
    try:
        storage = tensor.untyped_storage()
        return {id(tensor), ("storage", storage._cdata)}
    except Exception:  # of a device without storages
        return {id(tensor)}


def attention_width(model: Any, modules: List[Any]) -> int:
    """Heads times head dimension, summed over layers: of its configuration, else of its parts."""
    for module in modules:
        config = getattr(module, "config", None)
        layers = first_of(config, "num_hidden_layers", "n_layer", "num_layers")
        heads = first_of(config, "num_attention_heads", "n_head", "num_heads")
        hidden = first_of(config, "hidden_size", "n_embd", "d_model")
        size = first_of(config, "head_dim") or (hidden // heads if hidden and heads else 0)
        if layers and heads and size:
            return int(layers * heads * size)
    total = 0
    for name, module in model.named_modules():
        word = name.rpartition(".")[2]
        if type(module).__name__ == "MultiheadAttention":
            total += int(module.embed_dim)
        elif word in QUERY:
            total += widest(module, 0)
        elif word in PACKED:
            total += widest(module, None) // 3
    return total


def first_of(config: Any, *names: str) -> int:
    """The first of these attributes that is a number, else 0."""
    found = (getattr(config, name, None) for name in names)
    return next((value for value in found if isinstance(value, int) and value > 0), 0)


def widest(module: Any, axis: Optional[int]) -> int:
    """An axis, or the longer one, of the largest matrix in a module: what adapters wrap."""
    matrices = [p for p in module.parameters() if p.dim() == 2]
    if not matrices:
        return 0
    shape = max(matrices, key=lambda p: p.numel()).shape
    return int(max(shape) if axis is None else shape[axis])


def threads() -> Optional[int]:
    """Threads that an op of torch may use; None where torch does not say."""
    counted: Any = getattr(sys.modules.get("torch"), "get_num_threads", None)
    return counted() if counted else None


def hardware() -> Dict[str, Any]:
    """Architecture and number of chips, where an opened runtime tells them."""
    try:
        opened = [each for each in RUNTIMES if each.opened()]
        if is_simulated() and any(each.tenstorrent for each in opened):
            return {"arch": "simulated"}
        found = (each.hardware() for each in opened)
        return next(filter(None, found), {})
    except Exception:  # another version
        return {}
