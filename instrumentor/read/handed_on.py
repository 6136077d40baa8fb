"""Calls whose value is what they were given: a name stands for the same object behind them."""

from __future__ import annotations


def words(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())


#: Names of Python 2, and of what stands in for them, by the builtin that they are today.
_BUILTIN_AGAIN = {"imap": "map", "ifilter": "filter", "izip": "zip", "xrange": "range"}
_LENDERS = frozenset(("builtins", "itertools", "six.moves", "past.builtins", "future_builtins"))


def today(name: str) -> str:
    """`builtins.zip` for `itertools.izip` or `six.moves.zip`; other names as they are."""
    package, _, word = name.rpartition(".")
    if package not in _LENDERS:
        return name
    word = _BUILTIN_AGAIN.get(word, word)
    lent = package != "itertools" or word in _BUILTIN_AGAIN.values()
    return f"builtins.{word}" if lent else name


#: Calls whose result stands for their first argument.
RETURNS_ARGUMENT = words(
    "builtins.list builtins.tuple builtins.set builtins.iter builtins.reversed builtins.sorted "
    "copy.copy copy.deepcopy functools.partial functools.wraps itertools.chain itertools.cycle "
    "itertools.islice tqdm.tqdm tqdm.auto.tqdm torch.compile torch.jit.script torch.jit.trace "
    "torch_xla.compile torch_xla.experimental.compile torch.nn.DataParallel "
    "torch.nn.parallel.DataParallel torch.nn.parallel.DistributedDataParallel "
    "torch.distributed.fsdp.FullyShardedDataParallel torch.distributed.fsdp.fully_shard "
    "torch_xla.distributed.parallel_loader.MpDeviceLoader peft.get_peft_model "
    "torch.quantization.prepare_qat"
)
#: Under which attribute an object of a library has the first thing that it is made of.
FIRST_AS = {
    "torch.utils.data.DataLoader": "dataset",
    "torch.utils.data.dataloader.DataLoader": "dataset",
    "torch.utils.data.Subset": "dataset",
}
#: Calls whose value cannot be called.
NEVER_CALLED = words(
    "re.compile logging.getLogger pathlib.Path pathlib.PurePath os.getenv os.path.join "
    "collections.OrderedDict collections.defaultdict collections.deque collections.Counter "
    "numpy.array numpy.arange numpy.zeros numpy.ones numpy.linspace torch.tensor torch.device "
    "argparse.ArgumentParser"
)
#: Methods that return the object itself, or the same thing somewhere else.
RETURNS_SELF = words(
    "to cuda cpu half float double bfloat16 type xpu npu train eval requires_grad_ share_memory "
    "to_empty compile detach __enter__ module"
)
#: Methods that return their arguments, wrapped: one, or as many as they were given.
GIVES_BACK = words("prepare prepare_model prepare_optimizer setup setup_module unwrap_model")
#: Methods that many kinds of objects have: their name alone says nothing of the type.
COMMON_METHODS = frozenset((*dir(dict), *dir(list), *dir(str), *dir(set))) | words(
    "to cuda cpu item detach view reshape size mean sum read write close open state_dict "
    "load_state_dict parameters zero_grad info debug warning error exception log print "
    "set_postfix set_description backward step train eval forward fit run"
)
