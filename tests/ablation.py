"""Which abilities of reading do scripts need? ``make ablate CORPUS=FOLDER``.

Each script is explained as it is, while every ability notes whether it had anything to say; those
that had are then switched off, all at once, and where plan or decline are not the same, one at a
time. An ability that changes nothing in a large corpus, and is no safety, is a candidate for
removal. Nothing is run.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import cached_property, wraps
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from instrumentor.read.import_folders import Added

LIMIT_S = 120
_SKIPPED = frozenset({".git", ".venv", "__pycache__", "node_modules"})


class Argument(NamedTuple):
    """What is given, as it is."""

    at: int


class Ability(NamedTuple):
    """What can be switched off.

    Attributes:
        target: `module:function` or `module:Class.method` of the tool.
        off: what it answers then.
        safety: it keeps figures right, or declines; not a candidate, whatever a corpus shows.
    """

    name: str
    target: str
    off: Any
    safety: bool = False

    def place(self) -> tuple[Any, str, Any]:
        """Its owner, its name there, and what stands there."""
        module, _, path = self.target.partition(":")
        owner: Any = import_module(f"instrumentor.{module}")
        *outer, name = path.split(".")
        for each in outer:
            owner = getattr(owner, each)
        return owner, name, vars(owner)[name]

    def answer(self, given: tuple[Any, ...]) -> Any:
        """What it says of these arguments when it is switched off."""
        return given[self.off.at] if isinstance(self.off, Argument) else self.off


NAMES = "read.names:Names"
REGION, SKIPS = "locate.region", "locate.changes.skips"
ABILITIES = (
    Ability("branches that all callers rule out", "read.constants:is_ruled_out", False),
    Ability(
        "loops that the arguments rule out",
        "read.script_options:ScriptOptions.entry_as_called",
        None,
    ),
    Ability("folders put on sys.path", "read.import_folders:added_by", Added()),
    Ability("attributes set elsewhere", f"{NAMES}._stored", ()),
    Ability("fields of dataclasses", f"{NAMES}._field", ()),
    Ability("super()", f"{NAMES}._of_super", ()),
    Ability("argparse namespaces", f"{NAMES}._of_namespace", ()),
    Ability("import_module by name", f"{NAMES}._imported_by_name", ()),
    Ability("getattr and the like", f"{NAMES}._taken_from", ()),
    Ability("items of results", f"{NAMES}._of_result", ()),
    Ability("items of containers", f"{NAMES}._of_group", ()),
    Ability("what is put into containers", f"{NAMES}._put_into", ()),
    Ability("annotations", f"{NAMES}._annotated", ()),
    Ability("what callers pass", f"{NAMES}._passed", ()),
    Ability("the only method of a name", f"{NAMES}._only_method", []),
    Ability("forward called by training", f"{NAMES}._training_forward", []),
    Ability("another object of a builder at each call", "read.names:_built", False),
    Ability("what dicts hold that a call makes", f"{NAMES}._of_table", ()),
    Ability("what decorators are given", f"{NAMES}._decorated_by", ()),
    Ability("what decorators do around a call", f"{SKIPS}.reader:wrappers", None),
    Ability("getattr by a written-out name", f"{NAMES}._looked_up", ()),
    Ability("calls that pass a backward over", "read.constants:passed_over", False),
    Ability("members of enumerations", "read.constants:_members", {}),
    Ability(
        "branches that the options rule out", "read.script_options:ScriptOptions.rule_out", False
    ),
    Ability(
        "objects that the options rule out", "read.script_options:ScriptOptions.never_made", None
    ),
    Ability("functions that add to sys.path", "read.import_folders:adders_of", {}),
    Ability(
        "models whose parts are unread", "locate.meaning.kinds:Kinds._runs_unread_parts", False
    ),
    Ability("rollouts", "locate.gradients.forward:_is_of_rollout", False, True),
    Ability("autograd.grad as a backward", "locate.meaning.calls:Knowledge.is_gradient", False),
    Ability(
        "forwards without gradients", "locate.meaning.calls:Knowledge.is_gradless", False, True
    ),
    Ability("methods that run instead", f"{REGION}.step_function:_run_instead", (), True),
    Ability("updates written by hand", "locate.loop.by_hand:updates_by_hand", False),
    Ability("statements of one iteration only", "locate.loop.counter:runs_once", False, True),
    Ability("the step's own function is entered", f"{REGION}.step_function:step_function", None),
    Ability("conditions told ahead", f"{REGION}.conditions:condition", "", True),
    Ability("loops inside of a loop", "locate.choose_loop:_without_inner", Argument(0)),
    Ability("an inference loop of its own", "locate:_own_inference", None),
    Ability("lines offered with a decline", "locate:with_region", Argument(0)),
    Ability("mode: left pending", f"{REGION}.modes:_left_pending", None),
    Ability("mode: several updates", f"{REGION}.modes:_several_updates", None),
    Ability("mode: whole step", f"{REGION}.modes:_whole_step", None),
    Ability("mode: own sync", f"{REGION}.modes:_own_sync", None),
    Ability("regions merged", f"{REGION}.regions:_merged", Argument(1)),
    Ability("switched parameters", "locate.meaning.trained:Trained.switched", frozenset()),
    Ability("clean-up behind the loop", "locate.changes.cleanup:cleanup_behind", (), True),
    Ability("compile caches cleared", "locate.choose_loop:_cache_clears", (), True),
    Ability("what leads apart from the loss", f"{REGION}.apart:apart_from_the_loss", ()),
    Ability("warnings beside the step", f"{REGION}.beside_the_step:beside_the_step", ()),
    Ability("functions that skipping leaves unused", f"{SKIPS}.removal:Gone.functions", set()),
    Ability("trainers of libraries", "locate.rules.frameworks:trainers", (), True),
    Ability("engines of libraries", "locate.rules.frameworks:engines", (), True),
    Ability("frameworks that are imported", "locate.rules.frameworks:imports", (), True),
    Ability("scripts without torch", "locate.rules.frameworks:without_torch", (), True),
    Ability("rule: closure", "locate.rules.closures:closure", (), True),
    Ability("rule: generator", "locate.rules.shape:generator", (), True),
    Ability("rule: line search", "locate.rules.shape:line_search", (), True),
    Ability("rule: conditional step", "locate.rules.shape:conditional_step", (), True),
    Ability("rule: own process", "locate.rules.own_process:own_process", (), True),
)


class Outcome(NamedTuple):
    """What one script showed.

    Attributes:
        spoke: abilities that had anything to say.
        plans, declines: those without which its plan differs, or whether it is declined.
    """

    script: str
    spoke: tuple[str, ...] = ()
    plans: tuple[str, ...] = ()
    declines: tuple[str, ...] = ()
    failure: str = ""


@contextmanager
def replaced(ability: Ability, made: Callable[[Any], Any]) -> Iterator[None]:
    """Another function in its place, wherever modules of the tool have it."""
    owner, name, found = ability.place()
    function = found.func if isinstance(found, cached_property) else found
    new = made(function)
    if isinstance(found, cached_property):
        new = cached_property(new)
        new.__set_name__(owner, name)
    changes = [(owner, name, found, new)]
    if not isinstance(owner, type):
        for module in [m for n, m in sys.modules.items() if n.startswith("instrumentor")]:
            for key, value in list(vars(module).items()):
                if value is found:
                    changes.append((module, key, found, new))
                elif isinstance(value, tuple) and any(each is found for each in value):
                    others = tuple(new if each is found else each for each in value)
                    changes.append((module, key, value, others))
    for where, key, _, value in changes:
        setattr(where, key, value)
    try:
        yield
    finally:
        for where, key, value, _ in changes:
            setattr(where, key, value)


def listening(ability: Ability, heard: set[str]) -> Callable[[Any], Any]:
    """The function as it is; notes where its answer is not what it is when switched off."""

    def made(function: Any) -> Any:
        @wraps(function)
        def noting(*given: Any, **named: Any) -> Any:
            answer = function(*given, **named)
            found = tuple(answer) if _walked(function) else answer
            neutral = ability.answer(given)
            if found is not neutral and found != neutral:
                heard.add(ability.name)
            return iter(found) if _walked(function) else found

        return noting

    return made


def _walked(function: Any) -> bool:
    """Whether it is a generator."""
    return bool(getattr(function, "__code__", None) and function.__code__.co_flags & 0x20)


def switched_off(ability: Ability) -> Callable[[Any], Any]:
    """A function that knows nothing."""

    def made(function: Any) -> Any:
        def silent(*given: Any, **named: Any) -> Any:
            return iter(()) if _walked(function) else ability.answer(given)

        return silent

    return made


def explained(script: Path) -> tuple[bool, str]:
    """Whether there is a plan, and all that is said."""
    from instrumentor.rewrite.prepare import explain

    found = explain(script)
    return found.eligible, json.dumps(found.to_json(), sort_keys=True, default=str)


def ablate(script: Path) -> Outcome:
    """One script with everything, then without each ability that had anything to say."""
    signal.signal(signal.SIGALRM, _too_long)
    heard: set[str] = set()
    signal.alarm(LIMIT_S)
    try:
        with _all_replaced(ABILITIES, lambda ability: listening(ability, heard)):
            eligible, text = explained(script)
        spoke = [ability for ability in ABILITIES if ability.name in heard]
        quiet = [ability for ability in spoke if not ability.safety]
        signal.alarm(LIMIT_S)
        with _all_replaced(quiet, switched_off):
            same = explained(script) == (eligible, text)
        plans, declines = [], []
        for ability in spoke:
            if same and not ability.safety:
                continue
            signal.alarm(LIMIT_S)
            with replaced(ability, switched_off(ability)):
                now, other = explained(script)
            plans += [ability.name] if other != text else []
            declines += [ability.name] if now != eligible else []
    except Exception as error:  # noqa: BLE001 - one script must not end the others
        return Outcome(str(script), failure=f"{type(error).__name__}: {error}"[:200])
    finally:
        signal.alarm(0)
    return Outcome(str(script), tuple(sorted(heard)), tuple(plans), tuple(declines))


@contextmanager
def _all_replaced(
    abilities: Sequence[Ability], made: Callable[[Ability], Callable[[Any], Any]]
) -> Iterator[None]:
    with ExitStack() as stack:
        for ability in abilities:
            stack.enter_context(replaced(ability, made(ability)))
        yield


def _too_long(*_: object) -> None:
    raise TimeoutError(f"longer than {LIMIT_S} s")


def scripts_of(corpus: Path) -> list[Path]:
    """The scripts that a list names, one a line; of a folder all that speak of a backward."""
    if corpus.is_file():
        names = corpus.read_text(encoding="utf-8").split("\n")
        return [corpus.parent / name for name in names if name]
    found = []
    for folder, names, files in os.walk(corpus):
        names[:] = sorted(name for name in names if name not in _SKIPPED)
        paths = (Path(folder, name) for name in sorted(files) if name.endswith(".py"))
        found += [path for path in paths if path.is_file() and b"backward" in path.read_bytes()]
    return found


def table(outcomes: list[Outcome]) -> str:
    """One line for each ability: in how many scripts it spoke, and changed plan and decline."""
    spoke = Counter(name for each in outcomes for name in each.spoke)
    plans = Counter(name for each in outcomes for name in each.plans)
    declines = Counter(name for each in outcomes for name in each.declines)
    lines = [f"{'ability':<40} {'spoke':>6} {'plans':>6} {'declines':>8}"]
    for each in sorted(ABILITIES, key=lambda a: (plans[a.name], spoke[a.name])):
        note = "safety" if each.safety else "" if plans[each.name] else "changes nothing here"
        counts = f"{spoke[each.name]:6} {plans[each.name]:6} {declines[each.name]:8}"
        lines.append(f"{each.name:<40} {counts}  {note}".rstrip())
    failed = [each for each in outcomes if each.failure]
    lines.append(f"{len(outcomes) - len(failed)} scripts, {len(failed)} more could not be compared")
    return "\n".join([*lines, *(f"  {each.script}: {each.failure}" for each in failed)])


def main() -> None:
    """Ablate and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", type=Path, help="a folder, or a list of scripts")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="each N-th script only")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    chosen = scripts_of(given.corpus)[:: given.every]
    os.nice(10)
    with ProcessPoolExecutor(given.jobs) as pool:
        print(table(list(pool.map(ablate, chosen))))


if __name__ == "__main__":
    main()
