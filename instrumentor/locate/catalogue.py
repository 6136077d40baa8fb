"""What the calls of the field mean: the one list, by qualified name and by method of a type.

A new sync, optimizer or logger is one row here. Names are those that
:mod:`instrumentor.locate.names` resolves to, whatever the script calls them. How a name is
*spelled* stands at the end, is marked as such, and is asked last.
"""

from __future__ import annotations

# -- what calls give back ------------------------------------------------------------------------

#: Calls whose result stands for their first argument.
RETURNS_ARGUMENT = frozenset(
    {
        *("builtins.list", "builtins.tuple", "builtins.set", "builtins.iter", "builtins.reversed"),
        *("builtins.sorted", "copy.copy", "copy.deepcopy", "functools.partial", "functools.wraps"),
        *("itertools.chain", "itertools.cycle", "itertools.islice", "tqdm.tqdm", "tqdm.auto.tqdm"),
        *("torch.compile", "torch.jit.script", "torch.jit.trace", "torch.no_grad"),
        *("torch_xla.compile", "torch_xla.experimental.compile"),
        *("torch.nn.DataParallel", "torch.nn.parallel.DataParallel"),
        "torch.nn.parallel.DistributedDataParallel",
        *("torch.distributed.fsdp.FullyShardedDataParallel", "torch.distributed.fsdp.fully_shard"),
        "torch_xla.distributed.parallel_loader.MpDeviceLoader",
        *("peft.get_peft_model", "torch.quantization.prepare_qat"),
    }
)
#: Methods that return the object itself, or the same thing somewhere else.
RETURNS_SELF = frozenset(
    {
        *("to", "cuda", "cpu", "half", "float", "double", "bfloat16", "type", "xpu", "npu"),
        *("train", "eval", "requires_grad_", "share_memory", "to_empty", "compile", "detach"),
        *("__enter__", "module"),
    }
)
#: Methods that return their arguments, wrapped: one, or as many as they were given.
GIVES_BACK = frozenset({"prepare", "prepare_model", "prepare_optimizer", "setup", "setup_module"})
#: Methods that many kinds of objects have: their name alone says nothing of the type.
COMMON_METHODS = frozenset(
    {
        *dir(dict),
        *dir(list),
        *dir(str),
        *dir(set),
        *("to", "cuda", "cpu", "item", "detach", "view", "reshape", "size", "mean", "sum", "read"),
        *("write", "close", "open", "state_dict", "load_state_dict", "parameters", "zero_grad"),
        *("info", "debug", "warning", "error", "exception", "log", "print", "set_postfix"),
        *("set_description", "backward", "step", "train", "eval", "forward", "fit", "run"),
    }
)
