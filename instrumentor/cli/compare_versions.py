"""`instrument compare --refs A..B SCRIPT` and its like: two versions, run in pairs.

The versions differ in one thing: the commit, the words after `--`, the interpreter, or a setting of
`tune`. Each stands in a copy of its own.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from instrumentor.cli import common, next_commands
from instrumentor.run.options import RunOptions
from instrumentor.shared import console
from instrumentor.shared.errors import (
    InstrumentError,
    NotReady,
    RegressionFound,
    Undecided,
    UsageError,
)
from instrumentor.shared.option_fields import MEASURE, OUTPUT, WHERE, Checked, option
from instrumentor.shared.options import Options, names
from instrumentor.shared.outputs import PAIRS, run_folder
from instrumentor.shared.project import Project, find_project
from instrumentor.workspace import git
from instrumentor.workspace.versions import frozen
from instrumentor_analysis.reports.formatting import plural
from instrumentor_analysis.shared.documents import listed
from instrumentor_analysis.shared.units import column, quantity

if TYPE_CHECKING:
    from instrumentor.run.launchers import Started
    from instrumentor.run.pairs import Command, Paired, Version
    from instrumentor_analysis.model import Interval

#: In the record until the first pair is there.
_BEGUN = b'{"schema": "instrument-pairs/1"}'
#: An end of an interval so near to a pair's difference, as a logarithm, is that pair.
_AT_A_PAIR = 0.005
#: The user's files as they stand, in the place of a commit.
WORKTREE = "WORKTREE"
_HERE = "your working tree"
#: Pairs after which their spread is known well enough to say how many more it takes.
_SPREAD_KNOWN = 10
#: Pairs beyond which nobody waits, and differences beyond which nobody asks, percent.
_HOPELESS_PAIRS, _COARSEST_PERCENT = 1000, 25
#: So many times as many pairs are proposed as are said to be needed, which is not exact.
_SPARE = 1.1
#: What git says of a name that stands for nothing.
_NO_NAME = "Needed a single revision"
_HOW = "For example: instrument compare --refs main..HEAD train.py"


@dataclass(frozen=True)
class PairSteps(Options):
    """How each run of a pair is rewritten: many short runs tell more than few long ones."""

    steps: int = option(MEASURE, 23, "In pairs: samples of each run, the warm-up included.")
    warmup: int = option(MEASURE, 3, "In pairs: warm-up samples of each run.", minimum=0)


@dataclass(frozen=True)
class PairOptions(Checked):
    """What two versions differ in, and when it is decided."""

    refs: str = option(
        WHERE,
        "",
        "Run SCRIPT at two commits: A..B, A...B (from where B left A), A or A.. (against the files "
        "as they stand).",
        metavar="A..B",
        once=True,
    )
    pythons: tuple[str, ...] = option(
        WHERE, (), "Run SCRIPT under two interpreters.", metavar="A,B", convert=names, once=True
    )
    set: str = option(
        MEASURE,
        "",
        "Run SCRIPT as it is, and with a setting of tune: batch_size=64, dtype=bfloat16.",
        metavar="SETTING=VALUE",
        once=True,
    )
    pairs: int = option(MEASURE, 40, "In pairs: stop undecided after so many.", minimum=1)
    resolution: float = option(
        MEASURE,
        1.0,
        "In pairs: stop when a difference of this many percent or more is ruled out.",
        metavar="PCT",
        above=0,
    )
    resume: Path | None = option(
        WHERE,
        None,
        "In pairs: go on with the pairs of an earlier, undecided comparison of the same versions.",
        metavar="FOLDER",
        variable=False,
        once=True,
    )
    output: Path | None = option(
        OUTPUT,
        None,
        "In pairs: the folder of the runs; default instrument-runs/NAME_pairs-N.",
        *("-o", "--output"),
        metavar="DIR",
        variable=False,
        once=True,
    )
    rewrite: Options = field(default_factory=PairSteps)
    run: RunOptions = field(default_factory=RunOptions)


@dataclass(frozen=True)
class _Wanted:
    """One version: what it is called, and what it runs."""

    name: str
    started: Started
    ref: str = WORKTREE
    python: str | None = None
    setting: str = ""


def are_scripts(words: Sequence[str], options: PairOptions) -> bool:
    """Whether versions are to be run, not finished runs compared."""
    asked = options.refs or options.pythons or options.set
    return bool(asked) or any(map(begins_script, words))


def begins_script(word: str) -> bool:
    """Whether a script, or `-m` and a module, begins here: what follows is its own."""
    return word.endswith(".py") or word == "-m"


def compare_versions(
    groups: Sequence[Sequence[str]],
    options: PairOptions,
    gate_percent: float | None,
    shown: common.Shown,
    *,
    of_region: bool = False,
    typed: Sequence[str] = (),
) -> None:
    """Run two versions in pairs, and say which is faster.

    Args:
        groups: script and arguments; of two versions, where that is what they differ in.
        of_region: conclude from the timed region, not from the iteration around it.
        typed: the options as they were given, for the next command.

    Raises:
        UsageError: it is not clear which two versions are meant.
        RegressionFound, Undecided: what the gate, if there is one, says.
    """
    from instrumentor.run.pairs import MOST_PAIRS, Command, alike, refuse_other, run_pairs
    from instrumentor.run.training import run_name

    if options.pairs > MOST_PAIRS:
        raise UsageError(f"--pairs {options.pairs}: must be {MOST_PAIRS} or fewer")

    wanted = _wanted(groups, options)
    name = f"{run_name(wanted[1].started.script.absolute())}_pairs"
    narrator = shown.narrator
    earlier = _earlier(options, gate_percent, of_region=of_region)
    _warn_of_few(options.pairs, gated=gate_percent is not None)

    command = Command(tuple(typed), tuple(map(tuple, groups)), str(Path.cwd()))

    def again(paired: Paired, pairs: int | None) -> str:
        few = options.pairs < _fewest(gated=gate_percent is not None)
        return _again(command, paired.folder, pairs, few=few)

    outlook = ""

    def tell(paired: Paired) -> None:
        nonlocal outlook
        if shown.quiet:
            return
        console.say(progress_of(paired, options.pairs))
        if not outlook and (outlook := _hopeless(paired, options.pairs)):
            console.say(outlook)

    with ExitStack() as stack, common.working(narrator):
        base, new = (stack.enter_context(_standing(each, options)) for each in wanted)
        if alike(base, new):
            raise _nothing_differs(base, new, options)
        if earlier is None:
            folder = run_folder(options.run.folder, options.output, name, PAIRS, _BEGUN)
        else:
            folder = earlier.folder
            refuse_other(earlier, base, new)
        try:
            paired = run_pairs(
                base,
                new,
                folder,
                most=options.pairs,
                resolution_percent=options.resolution,
                gate_percent=gate_percent,
                of_region=of_region,
                progress=narrator,
                tell=tell,
                earlier=earlier,
                command=command,
            )
        except InstrumentError as error:
            if error.result is not None:
                _show(error.result, shown, again)
            raise
    _show(paired, shown, again)
    if gate_percent is not None:
        _judge(paired)


def _warn_of_few(pairs: int, *, gated: bool) -> None:
    """That so few pairs cannot end in a verdict, before the first of them is run."""
    fewest = _fewest(gated=gated)
    if pairs < fewest:
        console.warn(
            f"--pairs {pairs} ends undecided: a verdict takes {fewest} pairs at least, even where "
            f"all of them agree. Give --pairs {fewest} or more (40 without it)."
        )


def _fewest(*, gated: bool) -> int:
    """The fewest pairs that can end in a verdict, or decide a gate."""
    from instrumentor_analysis.compare.paired import FALSE_VERDICT, MISSED, fewest_pairs

    return fewest_pairs(MISSED if gated else FALSE_VERDICT)


def _again(command: Command, folder: Path, pairs: int | None, *, few: bool = False) -> str:
    """The command that goes on with the pairs of a folder; arguments as for :func:`_resumed`."""
    here = command.folder == str(Path.cwd())
    place = console.shown(folder) if here else str(folder.resolve())
    words = _resumed(command.options, place, pairs, few=few)
    versions = " -- ".join(console.quoted(*each) for each in command.versions)
    typed = f"instrument compare {console.quoted(*words)} {versions}"
    # Scripts and commits are named as they were there.
    return typed if here else f"cd {console.quoted(command.folder)} && {typed}"


def _resumed(typed: Sequence[str], folder: str, pairs: int | None, *, few: bool) -> list[str]:
    """The options that go on with the pairs of a folder.

    Args:
        pairs: the most there may be; None for as many as were typed.
        few: of those typed there is no verdict, so that they are left out.
    """
    counted = ("--pairs",) if few or pairs is not None else ()
    words = next_commands.without(typed, ("--resume", "--output", "-o", *counted))
    return [*words, "--resume", folder, *(() if pairs is None else ("--pairs", str(pairs)))]


def _nothing_differs(base: Version, new: Version, options: PairOptions) -> UsageError:
    """The error of one version in the place of two, which would run for minutes to tell nothing."""
    told = f"{base.name} and {new.name}: the same files, started in the same way"
    hint = "Give other arguments, another interpreter, or --set SETTING=VALUE."
    if options.refs:
        hint = "Change something first, or name two commits that differ: --refs A..B."
    return UsageError(f"{told}; there is nothing to compare", hint)


def _wanted(groups: Sequence[Sequence[str]], options: PairOptions) -> tuple[_Wanted, _Wanted]:
    asked = [name for name in ("refs", "pythons", "set") if getattr(options, name)]
    two = len(groups) == 2
    if len(asked) + two != 1 or len(groups) > 2:
        told = "give one difference between the two versions" if groups else "which script?"
        raise UsageError(f"{told}: --refs, --pythons, --set, or SCRIPT ARGS -- SCRIPT ARGS", _HOW)
    if two:
        return _of_words(groups[0]), _of_words(groups[1])
    one = _of_words(groups[0])
    if options.refs:
        base, new = parse_refs(options.refs)
        return replace(one, name=base, ref=base), replace(one, name=new, ref=new)
    if options.pythons:
        if len(options.pythons) != 2:
            raise UsageError("--pythons takes two interpreters", "For example: --pythons a,b")
        first, second = (replace(one, name=each, python=each) for each in options.pythons)
        return first, second
    return one, replace(one, name=options.set, setting=options.set)


def _of_words(words: Sequence[str]) -> _Wanted:
    """What `SCRIPT ARGS` or `-m MODULE ARGS` start.

    Raises:
        UsageError: there is no such module.
    """
    from instrumentor.run.launchers import started

    module, rest = "", words
    if words[0] == "-m":
        if len(words) == 1:
            raise UsageError("-m takes a module", "For example: -m package.train")
        module, rest = words[1], words[2:]
    return _Wanted(" ".join(words), started(rest, module, Path.cwd()))


def parse_refs(text: str) -> tuple[str, str]:
    """`A..B`, `A...B`, `A..` or `A`; the base of three dots is ``A...B``, as git has it.

    Raises:
        UsageError: no base is named.
    """
    base, dots, new = text.partition("...")
    if not dots:
        base, dots, new = text.partition("..")
    if not base or base == WORKTREE:
        raise UsageError(f"--refs {text}: names no base", _HOW)
    new = new or WORKTREE
    return (f"{base}...{new}" if dots == "..." else base), new


@contextlib.contextmanager
def _standing(wanted: _Wanted, options: PairOptions) -> Iterator[Version]:
    """A version in a copy of its own.

    Raises:
        UsageError: no such commit, setting or script.
    """
    from instrumentor.run.pairs import Version

    run, cwd, started = options.run, options.run.folder, wanted.started
    project = find_project(cwd / started.script)
    commit = _commit(project, wanted)
    found = project_python(project, wanted, run)
    links = {"link": run.link, "no_link": run.no_link}
    with frozen(project, started.script, cwd, commit, **links) as copy:
        if copy.linked and wanted.ref != WORKTREE:
            console.say(
                f"Linked into the copy of {wanted.name}: {listed(copy.linked, 5)} (your own)"
            )
        made = replace(
            run,
            rewrite=replace(options.rewrite, profiler="wallclock", test=started.test),
            module=started.module,
            launcher=started.launcher,
            profiler="wallclock",
            python=found,
            cwd=copy.counterpart(cwd),
            env=copy.environment(run.variables),
            own_script=(cwd / started.script).absolute(),
            link=(),
            no_link=(),
        )
        script = copy.counterpart((cwd / started.script).absolute())
        arguments = started.arguments
        if wanted.setting:
            made, arguments = _with_setting(wanted, script, project, made)
        how = _how(options, started)
        yield Version(_name(wanted, commit), script, arguments, made, commit, copy.digest(), how)


def _how(options: PairOptions, started: Started) -> str:
    """What is started and how it is timed, for a later comparison that goes on with the pairs."""
    started_as = [str(started.script), started.module, *started.launcher]
    return json.dumps([started_as, asdict(options.rewrite)], default=str)


def _earlier(options: PairOptions, gate_percent: float | None, *, of_region: bool) -> Paired | None:
    """The pairs to go on with.

    Raises:
        UsageError: there are none, or no more are allowed.
    """
    from instrumentor.run.pairs import read_pairs

    if options.resume is None:
        return None
    if options.output is not None:
        raise UsageError(
            "--resume writes into the folder that it goes on with", "Leave out --output."
        )
    found = read_pairs(
        options.run.folder / options.resume, options.resolution, gate_percent, of_region=of_region
    )
    if len(found.pairs) >= options.pairs and not found.decided:
        raise UsageError(
            f"--resume {options.resume}: it holds {len(found.pairs)} pairs, and --pairs allows "
            f"{options.pairs}",
            f"Allow more in all: --pairs {_more_pairs(found)}.",
        )
    return found


def _name(wanted: _Wanted, commit: str | None) -> str:
    if commit is None:
        return _HERE if wanted.name == WORKTREE else wanted.name
    return wanted.name if commit.startswith(wanted.name) else f"{wanted.name} ({commit[:9]})"


def _commit(project: Project, wanted: _Wanted) -> str | None:
    if wanted.ref == WORKTREE:
        return None
    if not (project.git and git.available()):
        raise UsageError(f"--refs {wanted.ref}: {project.root} is no git repository")
    base, dots, new = wanted.ref.partition("...")
    try:
        if not dots:
            return git.commit_of(project.root, wanted.ref)
        ends = [git.commit_of(project.root, each) for each in (base, _head(new))]
        return git.read(project.root, "merge-base", *ends).decode().split()[0]
    except InstrumentError as error:
        git.folder_of(project.root, "--git-dir")  # where git accepts none at all, it says why
        for each in (base, _head(new)) if dots else (base,):
            for ref in (_start(each), each):
                _refuse_damaged(project.root, ref)
        hint = _too_far_back(project, wanted.ref) or _branches(project) or error.message
        raise UsageError(f"--refs: {wanted.ref} is no commit", hint) from error


def _refuse_damaged(root: Path, ref: str) -> None:
    """A name that stands for something is no wrong one, although git cannot read what it is.

    Raises:
        NotReady: git cannot read it, or nothing at all.
    """
    try:
        name = ("rev-parse", "--verify", "--end-of-options", ref)
        found = git.read(root, *name).decode().strip()
    except NotReady as error:
        if _NO_NAME not in error.message:
            raise
        return
    try:
        git.read(root, "cat-file", "-t", found)
    except NotReady as error:
        told = f"--refs: {ref} is {found[:9]}, which git cannot read in {root}"
        raise NotReady(told, "It is damaged, or was never fetched. See: git fsck") from error


def _start(ref: str) -> str:
    """What the ancestors in a name are counted from."""
    return re.split("[~^]", ref)[0]


def _too_far_back(project: Project, ref: str) -> str:
    """That a commit has no such ancestor; empty where that is not why."""
    start = _start(ref)
    if start == ref:
        return ""
    try:
        count = git.read(project.root, "rev-list", "--count", "--end-of-options", start, "--")
    except InstrumentError:
        return ""
    there = plural(int(count), "commit")
    return f"{start} has {there} in all. Against your next change: --refs {start}.."


def _branches(project: Project) -> str:
    """What can be named instead; empty where there is none."""
    try:
        found = git.read(project.root, "branch", "--format=%(refname:short)").decode().split("\n")
    except InstrumentError:
        return ""
    names = [each for each in found if each and not each.startswith("(")]
    return f"Its branches: {listed(names, 8)}." if names else ""


def _head(new: str) -> str:
    return "HEAD" if new == WORKTREE else new


def project_python(project: Project, wanted: _Wanted, run: RunOptions) -> str | None:
    """The interpreter of the user's own project: none of it is in the copy."""
    if wanted.python is not None:
        return wanted.python
    return str(run.examine(project.root).python)


def _with_setting(
    wanted: _Wanted, script: Path, project: Project, options: RunOptions
) -> tuple[RunOptions, tuple[str, ...]]:
    from instrumentor.tune.edits import applied
    from instrumentor.tune.settings import Configuration, parsed
    from instrumentor.tune.target import NotApplicable, read_target

    name, value = parsed(wanted.setting)
    target = read_target(script, wanted.started.arguments, options.folder, options.rewrite)
    try:
        variant = applied(target, Configuration.of({name: value}))
    except NotApplicable as error:  # of a file in the copy: the user's is the one to be looked at
        file = project.root / error.file.relative_to(target.project.root)
        raise NotApplicable(file, error.line, f"{name}: {error.reason}", error.hint) from error
    if not variant.edits and not variant.files and variant.arguments == tuple(target.arguments):
        raise UsageError(
            f"--set {wanted.setting}: {name} is {value} in the script already; there is nothing to "
            "compare",
            "Give another value.",
        )
    rewrite = replace(options.rewrite, variant=variant)
    return replace(options, rewrite=rewrite), tuple(variant.arguments)


# -- what is said ----------------------------------------------------------------------------


def progress_of(paired: Paired, most: int) -> str:
    """The last pair of so many at most, and what all say so far, on a line."""
    pair = paired.pairs[-1]
    names = _short(paired.base.name, paired.new.name)
    times = column([paired.compared_ms(each) for each in (pair.base, pair.new)], "ms")
    told = ", ".join(f"{name} {ms}" for name, ms in zip(names, times, strict=True))
    at = f"pair {len(paired.pairs)} of at most {most}"
    ends, found = paired.verdict.interval, paired.verdict
    if found.outcome != "undecided" or ends is None:
        return f"  {at}: {told}{_each(paired)}. So far: {statement(paired)}"
    return f"  {at}: {told}{_each(paired)}; no verdict yet: {names[1]} {_takes(ends)}"


def _short(*names: str) -> tuple[str, ...]:
    """Names of commits without their numbers, where that tells them apart."""
    short = tuple(name.partition(" (")[0] for name in names)
    return short if len(set(short)) == len(names) else names


def _takes(ends: Interval) -> str:
    """``probably takes 2.5 to 29 % less time``, of an interval of the ratio of two times."""
    low, high = ((end - 1) * 100 for end in (ends.low, ends.high))
    if low < 0 < high:
        less, more = quantity(-low, "%"), quantity(high, "%")
        return f"takes {less} less to {more} more time"
    near, far = sorted((abs(low), abs(high)))
    change = f"{near:,.1f} to {quantity(far, '%')}"
    return f"probably takes {change} {'less' if high <= 0 else 'more'} time"


def _each(paired: Paired) -> str:
    """What the times are of, where batches differ."""
    return " per sample" if paired.per_sample else ""


def statement(paired: Paired) -> str:
    """The verdict as a sentence."""
    found, base, new = paired.verdict, paired.base.name, paired.new.name
    ends = found.interval
    count = f"{found.pairs} pair{'s' if found.pairs != 1 else ''}"
    if found.outcome in ("faster", "slower"):
        sign = -1 if found.outcome == "faster" else 1
        word = f"{new} is {quantity(sign * found.percent, '%')} {found.outcome} than {base}"
        if ends is None:
            return f"{word}, {count}"
        first, last = sorted(sign * (end - 1) * 100 for end in (ends.low, ends.high))
        return f"{word} (95 %: {first:,.1f} to {quantity(last, '%')}), {count}"
    if ends is None:
        return _too_few(paired)
    low, high = ((end - 1) * 100 for end in (ends.low, ends.high))
    between = f"{low:+,.1f} to {quantity(high, '%', signed=True)}"
    if found.outcome == "same":
        limit = f"no difference of {found.resolution_percent:g} % or more"
        return f"{limit} between {base} and {new} (95 %: {between}), {count}"
    certain = f"95 %{_by_one_pair(paired)}"
    said = f"{count}, no verdict yet: {new} {_takes(ends)} than {base} ({certain})"
    return said if ends.low < 1 < ends.high else f"{said}; a verdict takes 99 % certainty"


def _by_one_pair(paired: Paired) -> str:
    """Which end of the interval is as far out as the most different pair, and says no more."""
    ends, seen = paired.verdict.interval, paired.differences
    if ends is None or not seen:
        return ""
    far = [end for end, edge in ((ends.low, min(seen)), (ends.high, max(seen)))
           if abs(math.log(end) - edge) < _AT_A_PAIR]  # fmt: skip
    told = " and ".join(quantity((end - 1) * 100, "%", signed=True) for end in far)
    return f"; {told} {'is' if len(far) == 1 else 'are'} the most different pair" if far else ""


def _too_few(paired: Paired) -> str:
    """What so few pairs show, and how many a verdict takes at least."""
    from instrumentor_analysis.compare.paired import fewest_pairs

    found, base, new = paired.verdict, paired.base.name, paired.new.name
    # Always of the new one, and always faster: the next line may have it the other way round.
    faster = sum(each < 0 for each in paired.differences)
    many = f"{found.pairs} pair{'s' if found.pairs != 1 else ''}"
    seen = f"{new} was faster than {base} in {faster} of {many}"
    least = max(fewest_pairs(), found.pairs + 1)
    if paired.interrupted:
        return f"{seen}; interrupted before the {least} that a verdict needs"
    return f"{seen}; no verdict before {least} pairs"


def show_earlier(
    folder: Path,
    *,
    json: bool,
    resolution: float | None = None,
    gate_percent: float | None = None,
    of_region: bool = False,
) -> None:
    """What the pairs of an earlier comparison came to, each with its times; judged again.

    Raises:
        UsageError: the folder holds no pairs.
        RegressionFound, Undecided: what the gate, if there is one, says.
    """
    from instrumentor.run.pairs import read_pairs

    paired = read_pairs(folder, resolution, gate_percent, of_region=of_region)
    if json:
        console.out_json({**paired.to_json(), "folder": str(paired.folder)})
    else:
        _tell(paired)
        for line in _pairs(paired):
            console.out(f"  {line}")
        if paired.decided:
            runs = console.quoted(console.shown(folder / paired.pairs[-1].new.folder))
            console.say(f"Next: instrument report {runs}")
        else:
            quiet = " on a quiet machine" if (_needed(paired) or 0) > _more_pairs(paired) else ""
            console.say(f"Next: {_resuming(paired)}  # goes on with these{quiet}")
    if gate_percent is not None:
        _judge(paired)


def _resuming(paired: Paired) -> str:
    """What goes on with pairs that did not decide."""
    more = _more_pairs(paired)
    if paired.command is not None:
        return _again(paired.command, paired.folder, more)
    words = console.quoted("--resume", console.shown(paired.folder), "--pairs", str(more))
    return f"the same instrument compare with {words}"  # an older record does not hold it


def _pairs(paired: Paired) -> Iterator[str]:
    """A line for each pair: both times, the difference, and what to doubt."""
    sides = [[paired.compared_ms(each) for each in (pair.base, pair.new)] for pair in paired.pairs]
    told = column([ms for side in sides for ms in side], "ms")
    for at, pair in enumerate(paired.pairs):
        busy = "  machine busy" if pair.base.busy or pair.new.busy else ""
        times = f"{paired.base.name} {told[2 * at]}, {paired.new.name} {told[2 * at + 1]}"
        change = quantity(math.expm1(paired.differences[at]) * 100, "%", signed=True)
        yield f"pair {at + 1:2}: {times}{_each(paired)} ({change}){busy}"


def _show(paired: Paired, shown: common.Shown, again: Callable[[Paired, int | None], str]) -> None:
    if shown.json:
        console.out_json({**paired.to_json(), "folder": str(paired.folder)})
        return
    _tell(paired)
    if shown.quiet:
        return
    folder = console.quoted(console.shown(paired.folder))
    console.say(f"Wrote {folder}/ (your files were not touched)")
    if paired.interrupted and not paired.decided:
        console.say(f"Next: {again(paired, None)}  # until it ends by itself")
        return
    if not paired.decided:
        more = _more_pairs(paired)
        longest = _duration(paired.duration_s / len(paired.pairs) * (more - len(paired.pairs)))
        quiet = "on a quiet machine, " if (_needed(paired) or 0) > more else ""
        console.say(f"Next: {again(paired, more)}  # {quiet}{longest} more at most")
        return
    console.say(f"Next: instrument report {folder}  # every pair")


def _tell(paired: Paired) -> None:
    """The verdict, what it is about, and what stands in its way."""
    text = statement(paired)
    if paired.new.name == _HERE or not text.startswith(paired.new.name):  # a file keeps its name
        text = text[0].upper() + text[1:]
    console.out_wrapped(f"{text}, {_duration(paired.duration_s)}")
    console.out(f"  compared: {paired.figure}{_each(paired)}, medians of each run")
    busy = sum(run.busy for pair in paired.pairs for run in (pair.base, pair.new))
    if busy:
        console.out(f"  the machine was busy in {busy} of {2 * len(paired.pairs)} runs")
    if outlook := _outlook(paired, _twice(paired)):
        console.out_wrapped(outlook, "  ")


def _hopeless(paired: Paired, most: int) -> str:
    """That so many pairs at most will not do by far, once their spread is known; else empty.

    Behind the last of them the result says it.
    """
    outlook = _outlook(paired, 2 * most) if _SPREAD_KNOWN <= len(paired.pairs) < most else ""
    ended = f"; this ends after {most}, or by Ctrl-C with what there is"
    return f"  So far {outlook}{ended}" if outlook else ""


def _outlook(paired: Paired, enough: int) -> str:
    """How many pairs a verdict would take where ``enough`` do not do; empty elsewhere."""
    needed, ends = _needed(paired), paired.verdict.interval
    if needed is None or needed <= enough or ends is None:
        return ""
    many = f"about {needed:,}" if needed <= _HOPELESS_PAIRS else f"more than {_HOPELESS_PAIRS:,}"
    a_pair_s = paired.duration_s / len(paired.pairs)
    longest = _duration(a_pair_s * min(needed, _HOPELESS_PAIRS))
    coarser = math.ceil(math.expm1(_half(ends) / math.sqrt(2)) * 100)
    other = f", or ask for less: --resolution {coarser}" if coarser <= _COARSEST_PERCENT else ""
    return (
        f"pairs differ too much: at this spread a verdict takes {many} of them ({longest}); "
        f"quieten the machine first{other}"
    )


def _half(ends: Interval) -> float:
    """Half of the width of an interval of ratios, as a logarithm."""
    return math.log(ends.high / ends.low) / 2


def _needed(paired: Paired) -> int | None:
    """About how many pairs a verdict takes at the spread of these; None where it is not known.

    The interval narrows with the root of their number, until it leaves out what is to be told.
    """
    found = paired.verdict
    if paired.decided or found.interval is None or paired.gate_percent is not None:
        return None
    least = math.log1p(found.resolution_percent / 100)
    told = max(abs(math.log(found.ratio)), least)
    return math.ceil(found.pairs * (_half(found.interval) / told) ** 2)


def _more_pairs(paired: Paired) -> int:
    """How many to propose: never fewer than a verdict is said to take, as far as anybody waits."""
    needed = _needed(paired)
    if needed is None or needed > _HOPELESS_PAIRS:
        return _twice(paired)
    return max(_twice(paired), math.ceil(needed * _SPARE / 10) * 10)


def _twice(paired: Paired) -> int:
    """Enough for a verdict where pairs agree, and twice as many as did not do."""
    from instrumentor_analysis.compare.paired import fewest_pairs

    return max(PairOptions().pairs, fewest_pairs(), 2 * len(paired.pairs))


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


def _judge(paired: Paired) -> None:
    from instrumentor_analysis.compare.paired import GATE_POINTS

    percent = paired.gate_percent or 0.0
    told = f"slower than {paired.base.name} by more than {percent:g} %"
    if paired.gate == "regression":
        last = paired.folder / f"{len(paired.pairs):02}"
        runs = console.quoted(*(console.shown(Path(f"{last}_{each}")) for each in ("base", "new")))
        raise RegressionFound(
            f"{paired.new.name} is {told}", f"What grew in the last pair: instrument compare {runs}"
        )
    if paired.gate == "undecided":
        raise Undecided(
            f"undecided whether {paired.new.name} is {told}, after {len(paired.pairs)} pairs",
            "Allow more --pairs, or quieten the machine.",
        )
    console.say(f"A slow-down by {percent + GATE_POINTS:g} % or more is ruled out")
