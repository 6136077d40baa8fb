"""What the program says about its names: which are models, frozen models, optimizers.

A name counts as a model because something only models do is done to it (`.parameters()`,
`.train()`, built from an nn.Module class, compiled, prepared) or because of how it is spelled.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from instrumentor.locate.program import Class, Function, Program
from instrumentor.locate.syntax import (
    ScopeNode,
    Source,
    arguments,
    below,
    callee,
    children,
    dotted,
    last,
    own_calls,
    own_nodes,
    receiver,
)
from instrumentor.locate.vocabulary import (
    is_backward,
    is_checkpoint_call,
    is_no_grad,
    is_optimizer_step,
    looks_like_model,
    looks_like_optimizer,
    optimizer_of,
    under_no_grad,
)

_MODEL_ONLY = frozenset(
    {"parameters", "named_parameters", "requires_grad_", "gradient_checkpointing_enable", "modules"}
)
_NOT_FORWARD = frozenset(
    [
        "train",
        "eval",
        "parameters",
        "named_parameters",
        "buffers",
        "zero_grad",
        "to",
        "cuda",
        "cpu",
        "half",
        "float",
        "bfloat16",
        "state_dict",
        "load_state_dict",
        "named_modules",
        "modules",
        "children",
        "requires_grad_",
        "share_memory",
        "save_pretrained",
        "apply",
        "register_buffer",
        "reset_parameters",
        "init_hidden",
        "init_weights",
        "item",
        "named_buffers",
        "no_sync",
        "generate",
        "estimate_mfu",
        "save_checkpoint",
        "load_checkpoint",
        "step",
        "backward",
        "clip_grad_norm_",
        "set_train_batch_size",
        "print_trainable_parameters",
        "unwrap",
        "detach",
        "is_training",
        "get_lr",
        "update",
        "append",
        "extend",
        "push",
        "store",
        "cache_clear",
        "clear",
        "reset",
        "num_parameters",
        "size",
        "gradient_accumulation_steps",
        "is_gradient_accumulation_boundary",
    ]
)
_LOSS_WORD = re.compile(r"(^|_)(loss|losses|criterion|crit|objective)", re.I)
_FORWARD_WORD = re.compile(
    r"forward|training_step|compute_[a-z_]*loss|calc(ulate)?_[a-z_]*loss|get_[a-z_]*loss|"
    r"^loss_fn_from|_loss_from|run_model|model_fn|get_logits|compute_logits|logps",
    re.I,
)
_BUILD_MODEL = re.compile(
    r"(^|_|\.)(from_pretrained|get_model|build_model|create_model|load_model|make_model|"
    r"get_peft_model|init_model|model_class|DataParallel|DistributedDataParallel|Sequential)$"
)
_BUILD_OPTIMIZER = re.compile(
    r"(^|\.)optim\.|optimi[sz]er|(^|\.)(AdamW?|SGD|RMSprop|Adagrad|Adadelta|Adamax|NAdam|RAdam|"
    r"LBFGS|Lion|Muon|Adafactor|LAMB|FusedAdam|AdamW8bit)$",
    re.I,
)


@dataclass(eq=False)
class Knowledge:
    """Facts about names of a program, computed on demand and kept."""

    program: Program

    @cached_property
    def _per_source(self) -> dict[Source, tuple[frozenset[str], frozenset[str], frozenset[str]]]:
        return {}

    def _facts(self, source: Source) -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
        cached = self._per_source.get(source)
        if cached is None:
            cached = self._collect(source)
            self._per_source[source] = cached
        return cached

    def _collect(self, source: Source) -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
        models: set[str] = set()
        frozen: set[str] = set()
        optimizers: set[str] = set()
        for node in source.nodes:
            if isinstance(node, ast.Call):
                owner = receiver(node)
                word = callee(node)
                if owner and word in _MODEL_ONLY:
                    models.add(owner)
                if (
                    owner
                    and word == "train"
                    and len(node.args) <= 1
                    and not looks_like_trainer(owner)
                ):
                    models.add(owner)
                if owner and word == "requires_grad_" and _is_false(node):
                    frozen.add(owner)
            elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
                built = dotted(node.value.func)
                names = [dotted(t) for t in node.targets if dotted(t)]
                if _builds_optimizer(built):
                    optimizers.update(names)
                elif _BUILD_MODEL.search(built) or self._builds_module(source, built):
                    models.update(names)
            elif isinstance(node, ast.For):
                frozen.update(_frozen_by_loop(node))
        frozen -= _thawed(source) | _parameter_names(source)
        models = {
            m
            for m in models
            if m and m not in ("self", "super()") and not _LOSS_WORD.search(last(m))
        }
        return frozenset(models - optimizers), frozenset(frozen), frozenset(optimizers)

    def _builds_module(self, source: Source, name: str) -> bool:
        target = self.program.lookup(source, name) if name else None
        return isinstance(target, Class) and self.is_module_class(target)

    def is_module_class(self, cls: Class) -> bool:
        return any(
            last(dotted(base)) in ("Module", "LightningModule", "PreTrainedModel")
            or last(dotted(base)).endswith("Module")
            for owner in self.program.bases(cls)
            for base in owner.node.bases
        )

    def optimizers(self, source: Source) -> frozenset[str]:
        return self._facts(source)[2]

    def is_model(self, source: Source, name: str) -> bool:
        """Whether a dotted name stands for a model that may be trained."""
        if not name or name in ("self", "super()") or name.endswith(("()", "[]")):
            return False
        models, frozen, optimizers = self._facts(source)
        if name in frozen or name in optimizers:
            return False
        if _LOSS_WORD.search(last(name)) and "model" not in last(name):
            return False
        if looks_like_optimizer(name) and name not in models:
            return False
        return name in models or looks_like_model(name)

    # -- optimizer steps ---------------------------------------------------------------------

    def steps_in(self, source: Source, node: ast.AST) -> Iterator[ast.Call]:
        """Optimizer steps made directly below a node."""
        for call in own_calls(node):
            if self._is_step(source, call):
                yield call

    def _is_step(self, source: Source, call: ast.Call) -> bool:
        return (
            is_optimizer_step(call, self.optimizers(source))
            or call in self._walked(source)
            or self._step_by_argument(call)
        )

    @staticmethod
    def _step_by_argument(call: ast.Call) -> bool:
        word = callee(call)
        if is_checkpoint_call(call) or _BOOKKEEPING.search(word):
            return False
        if "step" not in word.lower() or word in ("step", "zero_grad") or "sched" in word.lower():
            return False
        return (
            any(looks_like_optimizer(dotted(a)) for a in call.args if dotted(a))
            and "train" not in word
        )

    def stepped(self, function: Function, depth: int = 0) -> tuple[str, ...]:
        """Optimizers that a function steps, itself or through what it calls."""
        key = function.node
        cached = self._stepped.get(key)
        if cached is not None:
            return cached
        self._stepped[key] = ()
        names: list[str] = []
        for call, _ in self.program.calls.get(function.node, ()):
            names.extend(self.stepped_by(function.source, function.node, call, depth))
        self._stepped[key] = tuple(dict.fromkeys(names))
        return self._stepped[key]

    def stepped_by(
        self, source: Source, scope: ScopeNode, call: ast.Call, depth: int = 0
    ) -> tuple[str, ...]:
        """Optimizers that one call steps: `self.optimizer_step()` is what its method steps."""
        inner: list[str] = []
        for target in self.program.resolve(source, scope, call) if depth < 6 else ():
            inner.extend(self.stepped(target, depth + 1))
        if not self._is_step(source, call):
            return tuple(dict.fromkeys(inner))
        walked = self._walked(source).get(call)
        if walked is not None:
            return (walked,)
        name = optimizer_of(call)
        if inner and callee(call) != "step" and name in (receiver(call), callee(call)):
            return tuple(dict.fromkeys(inner))
        return (name,)

    # -- collections of optimizers -------------------------------------------------------------

    def _walked(self, source: Source) -> dict[ast.Call, str]:
        """Steps of a variable that walks over optimizers, with the name of what it walks over."""
        table = self._walked_cache.get(source)
        if table is None:
            table = self._walked_cache[source] = {}
            for node in source.nodes:
                for target, walked, body in _walks(node):
                    bound = self._bound_optimizers(source, target, walked)
                    for call in (c for part in body for c in own_calls(part)) if bound else ():
                        if callee(call) != "step" and not is_optimizer_step(call):
                            continue
                        for name in (receiver(call), *(dotted(a) for a in call.args)):
                            if name and name in bound:
                                table[call] = bound[name]
        return table

    @cached_property
    def _walked_cache(self) -> dict[Source, dict[ast.Call, str]]:
        return {}

    def _bound_optimizers(
        self, source: Source, target: ast.expr, walked: ast.expr
    ) -> dict[str, str]:
        """Names that a `for` over this expression binds to optimizers, each with where it is from.

        Looks through `.values()`, `.items()`, `enumerate`, `zip`, `reversed` and literals.
        """
        parts = target.elts if isinstance(target, (ast.Tuple, ast.List)) else []
        if isinstance(walked, ast.Call):
            word, given = callee(walked), walked.args
            owner = walked.func.value if isinstance(walked.func, ast.Attribute) else None
            if owner is not None and word in ("values", "copy"):
                return self._bound_optimizers(source, target, owner)
            if owner is not None and word == "items" and len(parts) == 2:
                return self._bound_optimizers(source, parts[1], owner)
            if word == "enumerate" and len(parts) == 2 and given:
                return self._bound_optimizers(source, parts[1], given[0])
            if word == "zip" and len(parts) == len(given):
                found: dict[str, str] = {}
                for part, argument in zip(parts, given, strict=True):
                    found |= self._bound_optimizers(source, part, argument)
                return found
            if owner is None and word in ("reversed", "list", "tuple", "iter") and given:
                return self._bound_optimizers(source, target, given[0])
            return {}
        if isinstance(walked, (ast.List, ast.Tuple, ast.Set)):
            if not parts:
                held = _holds_optimizers(walked, self.optimizers(source))
                return {dotted(target): dotted(target)} if held else {}
            rows = [r.elts for r in walked.elts if isinstance(r, (ast.List, ast.Tuple))]
            if not rows or any(len(r) != len(parts) for r in rows):
                return {}
            found = {}
            for part, column in zip(parts, zip(*rows, strict=True), strict=True):
                literal = ast.List(elts=list(column), ctx=ast.Load())
                found |= self._bound_optimizers(source, part, literal)
            return found
        name = dotted(walked)
        if parts or not name or name.endswith("()"):
            return {}
        known = self.optimizers(source) | self._collections(source)
        return {dotted(target): name} if name in known or looks_like_optimizer(name) else {}

    def _collections(self, source: Source) -> frozenset[str]:
        """Names of lists and dicts that optimizers are put into."""
        cached = self._collections_cache.get(source)
        if cached is None:
            found: set[str] = set()
            known = self.optimizers(source)
            for node in source.nodes:
                if isinstance(node, ast.Assign):
                    if _holds_optimizers(node.value, known):
                        found.update(dotted(t) for t in node.targets)
                    elif _is_optimizer(node.value, known):
                        found.update(
                            dotted(t.value) for t in node.targets if isinstance(t, ast.Subscript)
                        )
                elif isinstance(node, ast.AnnAssign) and node.value is not None:
                    if _holds_optimizers(node.value, known):
                        found.add(dotted(node.target))
                elif isinstance(node, ast.Call) and callee(node) == "append" and node.args:
                    if _is_optimizer(node.args[0], known):
                        found.add(receiver(node))
            cached = self._collections_cache[source] = frozenset(found - {""})
        return cached

    @cached_property
    def _collections_cache(self) -> dict[Source, frozenset[str]]:
        return {}

    @cached_property
    def _stepped(self) -> dict[ast.AST, tuple[str, ...]]:
        return {}

    # -- backward ----------------------------------------------------------------------------

    def has_backward(self, function: Function, depth: int = 0) -> bool:
        """Whether a function calls a backward, itself or through what it calls."""
        key = function.node
        if key in self._backward:
            return self._backward[key]
        self._backward[key] = False
        calls = self.program.calls.get(key, ())
        answer = any(is_backward(c) for c, _ in calls) or (
            depth < 6
            and any(
                self.has_backward(t, depth + 1)
                for c, _ in calls
                for t in self.program.resolve(function.source, key, c)
            )
        )
        self._backward[key] = answer
        return answer

    @cached_property
    def _backward(self) -> dict[ast.AST, bool]:
        return {}

    # -- forward -----------------------------------------------------------------------------

    def forward_call(
        self, source: Source, scope: ScopeNode, node: ast.AST, depth: int = 0
    ) -> ast.Call | None:
        """The first call below a node that runs a model with gradients, or None."""
        for call in self._grad_calls(node):
            if self._is_forward(source, scope, call, depth):
                return call
        return None

    def _grad_calls(self, node: ast.AST) -> Iterator[ast.Call]:
        """Calls below a node, `with no_grad` blocks and nested scopes left out, in order."""
        if isinstance(node, ast.stmt) and under_no_grad(node):
            return
        if isinstance(node, ast.Call):
            yield node
        for child in children(node):
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
                continue
            yield from self._grad_calls(child)

    def _is_forward(self, source: Source, scope: ScopeNode, call: ast.Call, depth: int) -> bool:
        name = dotted(call.func)
        word = callee(call)
        if is_backward(call) or is_optimizer_step(call) or word in ("accumulate", "no_sync", "len"):
            return False
        if word in (
            "shard_model",
            "clip_grad_norm_",
            "clip_grad_value_",
            "isinstance",
            "unwrap_model",
        ):
            return False
        if name and self.is_model(source, name):
            return True
        if isinstance(call.func, ast.Attribute):
            owner = receiver(call)
            if self.is_model(source, owner) and word not in _NOT_FORWARD:
                return True
            if word == "apply" and owner and owner.rpartition(".")[2][:1].isupper():
                return False
        given = arguments(call)
        passes_model = any(self.is_model(source, dotted(a)) for a in given if dotted(a))
        if _FORWARD_WORD.search(word) and not _LOSS_FUNCTION.search(word):
            return True
        if depth < 4:
            targets = self.program.resolve(source, scope, call)
            for function in targets:
                if self.runs_model(function, depth + 1):
                    return True
            if targets and not passes_model:
                return False
        return passes_model and word not in _NOT_FORWARD and not _PREPARES.search(word)

    def runs_model(self, function: Function, depth: int = 0) -> bool:
        key = function.node
        if key in self._runs_model:
            return self._runs_model[key]
        self._runs_model[key] = False
        if any(is_no_grad(d) for d in function.node.decorator_list):
            return False
        answer = any(
            self.forward_call(function.source, function.node, s, depth) is not None
            for s in function.node.body
        )
        self._runs_model[key] = answer
        return answer

    @cached_property
    def _runs_model(self) -> dict[ast.AST, bool]:
        return {}

    def evaluates(self, function: Function) -> bool:
        """Gradients off or `.eval()` somewhere in the function."""
        node = function.node
        return (
            any(is_no_grad(d) for d in node.decorator_list)
            or any(isinstance(s, ast.stmt) and under_no_grad(s) for s in own_nodes(node))
            or any(callee(c) == "eval" and not c.args for c in own_calls(node))
        )

    def is_validation_function(self, function: Function) -> bool:
        """No backward, gradients off or `.eval()`, and a loop over data: a validation."""
        if self.has_backward(function):
            return False
        loops = any(isinstance(s, (ast.For, ast.While)) for s in own_nodes(function.node))
        return loops and self.evaluates(function)


_BOOKKEEPING = re.compile(r"save|checkpoint|ckpt|log|print|dump|load|state|resume", re.I)
_LOSS_FUNCTION = re.compile(r"^(loss|criterion|loss_fn|loss_func|loss_function)$", re.I)
_PREPARES = re.compile(
    r"prepare|shard|register|watch|save|load|log|print|count|freeze|setup|init|sync|copy|update|"
    r"accumulate|clip|append|zip|list|tuple|dict|range|enumerate|getattr|hasattr|setattr|id$|type$",
    re.I,
)


def _builds_optimizer(name: str) -> bool:
    return bool(_BUILD_OPTIMIZER.search(name)) and "sched" not in name.lower()


def _is_optimizer(node: ast.expr, known: frozenset[str]) -> bool:
    if isinstance(node, ast.Call):
        return _builds_optimizer(dotted(node.func))
    name = dotted(node)
    return bool(name) and (name in known or looks_like_optimizer(name))


def _holds_optimizers(node: ast.expr, known: frozenset[str]) -> bool:
    """A list, tuple, set or dict of optimizers, written out or by a comprehension."""
    if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
        values: list[ast.expr] = node.elts
    elif isinstance(node, ast.Dict):
        values = node.values
    elif isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp)):
        values = [node.elt]
    elif isinstance(node, ast.DictComp):
        values = [node.value]
    elif isinstance(node, ast.Call) and callee(node) in _CONTAINERS:
        return any(_holds_optimizers(a, known) for a in node.args)
    else:
        return False
    return bool(values) and all(_is_optimizer(v, known) for v in values)


_CONTAINERS = ("list", "tuple", "dict", "set", "enumerate", "reversed", "zip", "OrderedDict")


def _walks(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr, list[ast.AST]]]:
    """What a `for` or a comprehension binds, what it walks over, and what it then runs."""
    if isinstance(node, (ast.For, ast.AsyncFor)):
        yield node.target, node.iter, list(node.body)
    elif isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp)):
        for part in node.generators:
            yield part.target, part.iter, [node.elt]


def looks_like_trainer(name: str) -> bool:
    return bool(re.search(r"trainer|runner|learner|experiment|(^|_)app$|^self$", last(name), re.I))


def _is_false(call: ast.Call) -> bool:
    values = [*call.args, *(k.value for k in call.keywords)]
    return bool(values) and isinstance(values[0], ast.Constant) and values[0].value is False


def _frozen_by_loop(node: ast.For) -> Iterator[str]:
    """`for p in X.parameters(): p.requires_grad = False` (without any test in between)."""
    if not (
        isinstance(node.iter, ast.Call) and callee(node.iter) in ("parameters", "named_parameters")
    ):
        return
    for statement in node.body:
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Constant):
            target = statement.targets[0]
            if (
                isinstance(target, ast.Attribute)
                and target.attr == "requires_grad"
                and statement.value.value is False
            ):
                yield receiver(node.iter)
        elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            if callee(statement.value) == "requires_grad_" and _is_false(statement.value):
                yield receiver(node.iter)


def _thawed(source: Source) -> set[str]:
    """Names of which some part is trained again after a freeze, or goes to an optimizer."""
    found: set[str] = set()
    for node in source.nodes:
        if isinstance(node, ast.For) and isinstance(node.iter, ast.Call):
            if any(_sets_grad(s, value=True) for s in below(node)):
                found.add(root_of(receiver(node.iter)))
        elif isinstance(node, ast.Call):
            word = callee(node)
            if word == "requires_grad_" and not _is_false(node):
                found.add(root_of(receiver(node)))
            elif word in ("add_adapter", "get_peft_model", "inject_adapter", "apply_lora"):
                found.add(root_of(receiver(node)))
                found.update(dotted(a) for a in node.args)
            elif _BUILD_OPTIMIZER.search(dotted(node.func)):
                found.update(receiver(c) for c in own_calls(node) if callee(c) in _MODEL_ONLY)
        elif isinstance(node, ast.comprehension) and isinstance(node.iter, ast.Call):
            if any(
                isinstance(n, ast.Attribute) and n.attr == "requires_grad"
                for test in node.ifs
                for n in below(test)
            ):
                found.add(receiver(node.iter))
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Attribute) and target.attr != "requires_grad":
                    found.add(dotted(target.value))
    return found - {"", "self"}


def root_of(name: str) -> str:
    """The object that a dotted name starts from: `model` of `model[1].head`, `self.net` of self."""
    parts = name.replace("[]", "").replace("()", "").split(".")
    return ".".join(parts[:2]) if parts[0] == "self" else parts[0]


def _sets_grad(node: ast.AST, *, value: bool) -> bool:
    return (
        isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Constant)
        and node.value.value is value
        and any(isinstance(t, ast.Attribute) and t.attr == "requires_grad" for t in node.targets)
    )


def _parameter_names(source: Source) -> set[str]:
    """Parameters of functions: the same name may stand for another model elsewhere."""
    return {
        a.arg
        for f in source.functions
        for a in (*f.args.posonlyargs, *f.args.args, *f.args.kwonlyargs)
    }
