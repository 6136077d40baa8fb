"""The words of the field: what a call to a backward, an optimizer step, a sync looks like.

Predicates judge single calls by their spelling; which function a name means is decided in
:mod:`instrumentor.locate.program`.
"""

from __future__ import annotations

import ast
import re

from instrumentor.locate.syntax import (
    callee,
    dotted,
    last,
    own_calls,
    own_nodes,
    receiver,
    root_name,
    suites,
)

_NOT_OPTIMIZER = re.compile(
    r"sched|(^|_)lr(_|$)|warm|(^|[._])envs?$|env_|prof|ema|pbar|(^|_)bar$|progress|timer|writer|"
    r"logg|wandb|track|simul|(^|_)game|curriculum|anneal|swa|early|local_sgd|averag|bucket",
    re.I,
)
_OPTIMIZER = re.compile(r"optim|(^|_|\.)opts?(_|$|\d)|adam|sgd|scaler|muon|adafactor|solver", re.I)
_ENGINE = re.compile(r"engine|deepspeed", re.I)
_STEP_WORD = re.compile(
    r"(^|_)(optim(izer)?s?_step|step_optim(izer)?s?|optimizer_update|"
    r"(run|apply|do|call|take)_(the_)?optim(izer)?s?(_step)?|apply_grad(ient)?s)$",
    re.I,
)
_MODEL = re.compile(
    r"(^|_)(model|models|net|netd|netg|network|module|unet|vae|encoder|decoder|policy|actor|"
    r"critic|agent|generator|discriminator|transformer|backbone|engine|bert|gpt|llama|resnet|vit|"
    r"mlp|cnn|rnn|lstm|gan|nn|ae|autoencoder|classifier|regressor|learner|student|nerf|q|qf\d?)"
    r"(_|\d*$)",
    re.I,
)
_VALIDATE = re.compile(
    r"^_*((validate|evaluate|eval|evaluation|validation|test)(_[a-z0-9_]+)?|"
    r"(run|do|perform|maybe|compute|calc|calculate|estimate|get)_(initial_)?"
    r"(val|valid|validation|validate|eval|evaluate|evaluation|test)(_[a-z0-9_]*)?|"
    r"[a-z0-9_]*_(validate|evaluate|evaluation|validation|eval)|"
    r"estimate_loss|log_validation(_[a-z0-9]+)?)$",
    re.I,
)
_NOT_VALIDATE = re.compile(
    r"load|dataset|dataloader|data$|corpus|input|param|shape|schema|same_|_set$|device|type|"
    r"version|token|prompt|consisten|check|config|_dl$|_ds$|split|transform|sampler|make_|build|create|"
    r"^get_(eval|val|valid|validation|test)(_[a-z]*)?_?(set|env|envs|data|batch|loader|iter|file)|"
    r"^get_loss|freq|steps?$|interval|args|prepare|mode$|path|name|should",
    re.I,
)
_CHECKPOINT = re.compile(
    r"^(save|_save|maybe_save|_maybe_save)(_[a-z_]*)?(checkpoint|ckpt|model|state|weights|"
    r"pretrained|snapshot|training_state|adapter)s?(_[a-z_]*)?$|^save_state(_dict)?$|"
    r"^(checkpoint|save_ckpt|save_pretrained|save_checkpoint|save_lora_weights)$",
    re.I,
)
_SYNC_ROOTS = ("torch_xla", "xm", "xr", "torch.cuda", "torch.mps", "torch.xpu", "torch.npu", "xla")
_LOGGER = re.compile(
    r"log|wandb|writer|print|tensorboard|tracker|metric|mlflow|tqdm|pbar|bar$|progress"
)


def is_backward(call: ast.Call) -> bool:
    """`loss.backward()`, `accelerator.backward(loss)`, `torch.autograd.backward(losses)` ..."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr != "backward":
        return callee(call) == "manual_backward"
    base = call.func.value
    if isinstance(base, ast.Call) and dotted(base.func) == "super":
        return False
    name = dotted(base)
    if name in ("autograd", "torch.autograd"):
        return True
    # `SomeFunction.backward(ctx, grad)` delegates inside an autograd.Function
    first = call.args[0] if call.args else None
    return not (isinstance(first, ast.Name) and first.id == "ctx")


def loss_expression(call: ast.Call) -> ast.expr:
    """The expression that is differentiated by a backward call."""
    assert isinstance(call.func, ast.Attribute) or call.args
    if isinstance(call.func, ast.Attribute):
        base = call.func.value
        name = dotted(base)
        outer = last(name)
        takes_loss = bool(call.args) and not name.endswith("()")
        if takes_loss and re.search(
            r"accelerator|fabric|engine|autograd|optim|scaler|^self$|runtime|strategy|amp|model",
            outer,
            re.I,
        ):
            return call.args[0]
        return base
    return call.args[0]


def is_zero_grad(call: ast.Call) -> bool:
    return callee(call) == "zero_grad"


def is_optimizer_step(call: ast.Call, optimizers: frozenset[str] = frozenset()) -> bool:
    """An optimizer's step by its spelling, or because the receiver is a known optimizer."""
    name = callee(call)
    if _STEP_WORD.search(name):
        return True
    if name != "step" or not isinstance(call.func, ast.Attribute):
        return False
    owner = receiver(call)
    if owner in optimizers:
        return True
    word = last(owner.replace(".[]", ""))  # `optimizers[0].step()`
    if _NOT_OPTIMIZER.search(word):
        return False
    if _OPTIMIZER.search(word) or _ENGINE.search(word):
        return True
    return any(_OPTIMIZER.search(last(dotted(a))) for a in call.args if dotted(a))


def optimizer_of(call: ast.Call) -> str:
    """The optimizer that a step call steps: receiver or the argument of scaler / xm calls."""
    for argument in call.args:
        if _OPTIMIZER.search(last(dotted(argument))):
            return dotted(argument)
    if isinstance(call.func, ast.Attribute) and receiver(call).endswith("[]"):
        return ast.unparse(call.func.value)  # `optimizers[0]` and `optimizers[1]` are two
    return receiver(call) or callee(call)


def looks_like_optimizer(name: str) -> bool:
    return bool(_OPTIMIZER.search(last(name))) and not _NOT_OPTIMIZER.search(last(name))


def looks_like_model(name: str) -> bool:
    return bool(_MODEL.search(last(name)))


def is_sync(call: ast.Call) -> bool:
    """An explicit graph cut or device wait of the script's own."""
    name = dotted(call.func)
    word = last(name)
    if word == "mark_step" or word == "wait_device_ops":
        return True
    if word == "sync" and root_name(call.func) in ("torch_xla", "xm", "xla", "txla"):
        return True
    if word in ("sync", "sync_device") and re.search(r"device|(^|_)dm$|runtime", receiver(call)):
        return True
    return word == "synchronize" and name.startswith(("torch.", "cuda.", "accelerator.", "xm."))


def sync_api(call: ast.Call) -> str:
    return dotted(call.func)


def sync_condition(statement: ast.stmt) -> str | None:
    """When a sync statement certainly syncs: 'True', a guard's plain name, or None (unknown)."""
    call = is_sync_statement(statement)
    if call is None or last(dotted(call.func)) not in ("sync", "mark_step"):
        return None  # waiting for a device cuts no XLA graph
    if root_name(call.func) not in ("torch_xla", "xm", "xla"):
        return None
    if isinstance(statement, ast.Expr):
        return "True"
    if isinstance(statement, ast.If) and not statement.orelse:
        name = dotted(statement.test)
        if name and not name.endswith(("()", "[]")) and "(" not in name and "[" not in name:
            return f"bool({name})"
    return None


def is_sync_statement(statement: ast.stmt) -> ast.Call | None:
    """The sync call when the statement is one, bare or guarded by `if`s that hold only syncs."""
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        return statement.value if is_sync(statement.value) else None
    if isinstance(statement, ast.If):
        calls = [is_sync_statement(inner) for suite in suites(statement) for inner in suite]
        meaningful = [
            inner
            for suite in suites(statement)
            for inner in suite
            if not isinstance(inner, ast.Pass)
        ]
        if meaningful and all(is_sync_statement(inner) for inner in meaningful):
            return next(call for call in calls if call is not None)
    return None


def is_validation_name(name: str) -> bool:
    return bool(_VALIDATE.match(name)) and not _NOT_VALIDATE.search(name)


def is_checkpoint_call(call: ast.Call) -> bool:
    """Saving weights or state, by the usual names; `torch.save`, `save_pretrained`, managers."""
    name = callee(call)
    if dotted(call.func) in ("torch.save", "xm.save", "xser.save"):
        return True
    return bool(_CHECKPOINT.match(name))


def is_eval_switch(call: ast.Call) -> bool:
    return callee(call) == "eval" and isinstance(call.func, ast.Attribute) and not call.args


def is_train_switch(call: ast.Call) -> bool:
    return callee(call) == "train" and isinstance(call.func, ast.Attribute)


def is_cache_clear(call: ast.Call) -> bool:
    return callee(call) == "clear_computation_cache"


def is_logging(call: ast.Call) -> bool:
    """A call whose purpose is to show or record values."""
    return bool(_LOGGER.search(dotted(call.func).lower()))


def is_no_grad(node: ast.expr) -> bool:
    """`torch.no_grad()`, `torch.inference_mode()`, `set_grad_enabled(False)`, called or not."""
    word = last(dotted(node))
    if word in ("no_grad", "inference_mode"):
        return True
    return (
        word == "set_grad_enabled"
        and isinstance(node, ast.Call)
        and bool(node.args)
        and isinstance(node.args[0], ast.Constant)
        and node.args[0].value is False
    )


def under_no_grad(statement: ast.stmt) -> bool:
    return isinstance(statement, (ast.With, ast.AsyncWith)) and any(
        is_no_grad(item.context_expr) for item in statement.items
    )


def host_read(node: ast.AST, tensors: frozenset[str]) -> ast.AST | None:
    """The first expression that waits for a device value, or None.

    `.item()`, `.cpu()`, `.numpy()`, `.tolist()`, `.to("cpu")` always count; `print(x)`,
    `float(x)`, `int(x)`, `bool(x)`, f-strings, comparisons and isnan tests count when they read
    one of `tensors`, the names computed by the forward.
    """
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and is_logging(node.value):
        shown = [*node.value.args, *(k.value for k in node.value.keywords)]
        if _reads_tensor(shown, tensors):
            return node.value
    for call in own_calls(node):
        name = callee(call)
        if isinstance(call.func, ast.Attribute):
            if name in ("item", "tolist", "numpy", "cpu") and not call.args:
                return call
            if name == "to" and call.args:
                first = call.args[0]
                if isinstance(first, ast.Constant) and first.value == "cpu":
                    return call
                if isinstance(first, ast.Call) and callee(first) == "device" and first.args:
                    inner = first.args[0]
                    if isinstance(inner, ast.Constant) and inner.value == "cpu":
                        return call
        elif name in ("print", "float", "int", "bool") and _reads_tensor(call.args, tensors):
            return call
    for part in own_nodes(node):
        if isinstance(part, ast.FormattedValue) and _reads_tensor([part.value], tensors):
            return part
    tests = [n.test for n in (node, *own_nodes(node)) if isinstance(n, (ast.If, ast.Assert))]
    for test in tests:
        if _is_value_test(test, tensors):
            return test
    return None


_SHAPE_WORDS = frozenset(
    {"shape", "size", "dtype", "device", "dim", "numel", "ndim", "requires_grad"}
)


def _reads_tensor(nodes: list[ast.expr], tensors: frozenset[str]) -> bool:
    return any(_tensor_value(node, tensors) for node in nodes)


def _tensor_value(node: ast.AST, tensors: frozenset[str]) -> bool:
    """True when the *values* of a tensor are read: not its shape, dtype or identity."""
    if isinstance(node, ast.Attribute) and node.attr in _SHAPE_WORDS:
        return False
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Attribute) and node.func.attr in _SHAPE_WORDS:
            return False
        if callee(node) in ("len", "isinstance", "type", "hasattr", "id"):
            return False
    if isinstance(node, ast.Compare) and all(isinstance(o, (ast.Is, ast.IsNot)) for o in node.ops):
        return False
    if isinstance(node, ast.Name):
        return node.id in tensors
    return any(_tensor_value(child, tensors) for child in ast.iter_child_nodes(node))


def _is_value_test(test: ast.expr, tensors: frozenset[str]) -> bool:
    for node in (test, *own_nodes(test)):
        if isinstance(node, ast.Call) and callee(node) in (
            "isnan",
            "isinf",
            "isfinite",
            "any",
            "all",
        ):
            if _reads_tensor([*node.args, node.func], tensors):
                return True
        elif isinstance(node, ast.Compare) and not all(
            isinstance(op, (ast.Is, ast.IsNot, ast.In, ast.NotIn)) for op in node.ops
        ):
            if _reads_tensor([node.left, *node.comparators], tensors):
                return True
    return False
