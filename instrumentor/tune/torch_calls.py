"""Keywords of PyTorch's own constructors: the data loader's workers, the optimizer's kernels."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

from instrumentor.read.syntax import ScopeNode, Source
from instrumentor.tune.batch_size import NOT_TRAINING
from instrumentor.tune.settings import Value
from instrumentor.tune.statements import Changes, Own, Way
from instrumentor.tune.target import NotApplicable, Target

_LOADERS = re.compile(r"torch\.utils\.data\.(dataloader\.)?DataLoader")
#: Those that have a fused implementation on the CPU and on CUDA.
_OPTIMIZERS = re.compile(r"torch\.optim\.(\w+\.)?(Adam|AdamW|SGD|Adagrad)")
#: num_workers and what follows it can be given by position as well.
_LOADERS_FIRST = 5


class Made(Struct, frozen=True):
    """A call that makes a loader or an optimizer."""

    source: Source
    scope: ScopeNode
    call: ast.Call

    def given(self, name: str) -> ast.expr | None:
        """What it says for a keyword."""
        return next((each.value for each in self.call.keywords if each.arg == name), None)

    def set(self, name: str, value: Value, changes: Changes, reason: str) -> None:
        """Let it say something else."""
        given = self.given(name)
        if given is not None:
            changes.replace(self.source, given, str(value), reason)
        else:
            changes.add_keyword(self.source, self.call, f"{name}={value}", reason)


def workers(target: Target) -> Way:
    """Processes that load data, kept from one epoch to the next."""
    loaders = _loaders(target)

    def apply(value: Value, changes: Changes) -> None:
        for loader in loaders:
            loader.set("num_workers", value, changes, "data is loaded beside the training")
            if value and loader.given("persistent_workers") is None:
                # Else every epoch begins with starting them, which the median does not show.
                loader.set("persistent_workers", True, changes, "workers outlive the epoch")

    how = "num_workers of DataLoader, with persistent_workers"
    return Way(how, _own(loaders, "num_workers", 0), apply)


def persistent_workers(target: Target) -> Way:
    """Workers that outlive an epoch, of a loader that has some."""
    loaders = _loaders(target)
    for loader in loaders:
        given = loader.given("num_workers")
        if given is None or (isinstance(given, ast.Constant) and given.value == 0):
            reason = "the loader has no workers, and num_workers brings persistent ones"
            raise NotApplicable(loader.source.path, loader.call.lineno, reason)
    return _keyword(loaders, "persistent_workers", "workers outlive the epoch")


def pin_memory(target: Target) -> Way:
    """Batches in memory from which the GPU copies by itself."""
    return _keyword(_loaders(target), "pin_memory", "the GPU copies from page-locked memory")


def fused(target: Target) -> Way:
    """The optimizer's update in one kernel."""
    optimizers = _found(target, _OPTIMIZERS)
    if not optimizers:
        reason = "no optimizer of torch.optim that has a fused implementation is made"
        raise NotApplicable(target.script, 1, reason)
    for each in optimizers:
        for other in ("foreach", "differentiable"):
            if each.given(other) is not None:
                reason = f"the optimizer is given {other}, beside which fused is not allowed"
                raise NotApplicable(each.source.path, each.call.lineno, reason)
    return _keyword(optimizers, "fused", "one kernel updates all parameters")


def _keyword(made: Sequence[Made], name: str, reason: str) -> Way:
    def apply(value: Value, changes: Changes) -> None:
        for each in made:
            each.set(name, value, changes, reason)

    what = "DataLoader" if name != "fused" else "the optimizer"
    return Way(f"{name} of {what}", _own(made, name, False), apply)


def _own(made: Sequence[Made], name: str, default: Value) -> Own:
    """What the first of them says."""
    first = made[0]
    given = first.given(name)
    known = given.value if isinstance(given, ast.Constant) else default if given is None else None
    value = known if isinstance(known, (bool, int)) else None
    return first.source.path, (given or first.call).lineno, value


def _loaders(target: Target) -> list[Made]:
    """The loaders of training.

    Raises:
        NotApplicable: there is none, or one that more workers would make load everything twice.
    """
    loaders = _found(target, _LOADERS)
    if not loaders:
        raise NotApplicable(target.script, 1, "no torch.utils.data.DataLoader is made")
    for source in target.sources:
        if b"IterableDataset" in source.data:
            line = source.data[: source.data.index(b"IterableDataset")].count(b"\n") + 1
            reason = "an IterableDataset: every worker would load all of it"
            raise NotApplicable(source.path, line, reason)
    for each in loaders:
        if len(each.call.args) > _LOADERS_FIRST:
            reason = "the loader's workers are given by position"
            raise NotApplicable(each.source.path, each.call.lineno, reason)
    training = [each for each in loaders if not NOT_TRAINING.search(_statement(each))]
    return training or loaders


def _statement(made: Made) -> str:
    statement = made.source.statement_of(made.call)
    return ast.unparse(statement or made.call)


def _found(target: Target, wanted: re.Pattern[str]) -> list[Made]:
    """Calls of what is meant by a qualified name.

    Raises:
        NotApplicable: the keywords of one cannot be seen.
    """
    found = [each for each in _calls(target) if wanted.fullmatch(_name(target, each))]
    for each in found:
        if any(keyword.arg is None for keyword in each.call.keywords):
            reason = "the keywords of this call come out of a dictionary"
            raise NotApplicable(each.source.path, each.call.lineno, reason)
    return found


def _name(target: Target, made: Made) -> str:
    return target.program.names.qualified(made.source, made.scope, made.call.func)


def _calls(target: Target) -> Iterator[Made]:
    for source in target.sources:
        if b"torch" in source.data:
            for call in source.calls:
                yield Made(source, target.program.scope_of(source, call), call)
