"""From source to the training loop, or to the reasons why there is none to instrument.

In: a program that was read; out: a `Located` step, or a `Declined` with file, line and reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec.structs import replace

from instrumentor.locate.choose_loop import Guessed, choose, is_reachable
from instrumentor.locate.experiment_yaml import folder_reason, mesh_default_warning, mesh_reason
from instrumentor.locate.inference import infers_only, locate_inference, locate_marked
from instrumentor.locate.located import Declined, Located, Reason
from instrumentor.locate.meaning.calls import Knowledge
from instrumentor.locate.region_suggestion import with_region
from instrumentor.locate.rules.loops import ForwardUnseen, LoopUnseen, SeveralLoops
from instrumentor.locate.rules.marked_lines import NoInferenceLoop
from instrumentor.locate.rules.no_loop import NoLoop, no_loop
from instrumentor.locate.rules.shape import GradientsUnseen
from instrumentor.locate.rules.unreadable import (
    FileTooLarge,
    Syntax,
    TooDeep,
    broken_imports,
    unread_imports,
)
from instrumentor.locate.seen_step import locate_seen
from instrumentor.read.program import Program
from instrumentor.read.syntax import Source, TooLarge, parse
from instrumentor.shared.errors import UsageError
from instrumentor.shared.options import Options
from instrumentor_analysis.shared.caveats import Caveat
from instrumentor_analysis.shared.files import read_bytes

__all__ = ["Declined", "Located", "Reason", "locate", "locate_file", "parse_source"]


def parse_source(path: Path, data: bytes) -> Source:
    """Parse, or decline with the parser's line.

    Raises:
        Declined: the text is not Python that this interpreter can parse, or too much of it.
    """
    try:
        return parse(path, data)
    except TooLarge as error:
        raise Declined(FileTooLarge.of(path, error=error.msg)) from error
    except SyntaxError as error:
        place = f", column {error.offset}" if error.offset else ""
        reason = Syntax.of(path, error.lineno or 1, error=f"{error.msg}{place}")
        raise Declined(reason) from error


def locate(
    source: Source,
    options: Options,
    roots: Sequence[Path] | None = None,
    arguments: Sequence[str] = (),
) -> Located:
    """Find the loop of a module, or with `roots` of the program that the module starts.

    Args:
        arguments: what the script is called with.

    Raises:
        Declined: with every reason, in order of weight.
        UsageError: `--loop` names a line without a training loop.
    """
    try:
        return _locate(source, options, roots, arguments)
    except Declined as declined:
        reasons = [
            with_region(each, source, options, lambda s, o: _locate_other(s, o, roots))
            for each in declined.reasons
        ]
        raise Declined(*reasons) from None
    except RecursionError:
        raise Declined(TooDeep.of(source.path)) from None


def _locate(
    source: Source, options: Options, roots: Sequence[Path] | None, arguments: Sequence[str]
) -> Located:
    if options.region is not None or options.mode == "inference":
        return _locate_other(source, options, roots)
    if options.seen is not None:
        return locate_seen(source, roots or (), options.seen, options, arguments)
    program = Program.single(source, roots or ())
    try:
        found = _training(program, options, arguments)
        if isinstance(found, Reason) and options.mode == "auto" and found.kind == NoLoop.kind:
            found = _own_inference(program.whole, options) or found
        if isinstance(found, Reason):
            raise Declined(found)
    except Declined as declined:
        reasons = declined.reasons
        raise Declined(*_unread(program, reasons[0]), *reasons) from None
    return _with_unread(found)


def _unread(program: Program, missed: Reason) -> Iterator[Reason]:
    """The imported files that do not parse, where one may hold what a decline misses."""
    # All of them are needed where something is declined, and nowhere else.
    from instrumentor.locate.rules.declines import DECLINES

    if missed.kind in {each.kind for each in DECLINES if each.unseen}:
        yield from broken_imports(program.whole)


def _with_unread(located: Located) -> Located:
    """With a warning of each imported file that does not parse."""
    found = [*unread_imports(located.program)]
    return replace(located, warnings=(*located.warnings, *found)) if found else located


def _training(program: Program, options: Options, arguments: Sequence[str]) -> Located | Reason:
    """The loop by the entry alone, or by all modules where that leaves something to be guessed."""
    try:
        alone = _alone(program, options, arguments)
    except Guessed:
        told = choose(program.whole, options, arguments)
        return told if isinstance(told, Located) else choose(program, options, arguments)
    if isinstance(alone, Located):
        return alone
    wider = program.whole
    found = choose(wider, options, arguments) if len(wider.sources) > 1 else None
    if isinstance(found, Located) or found is None:
        return found or alone or no_loop(Knowledge(wider), [])
    # that all modules show no loop says less than why the entry's own is none
    says_more = isinstance(alone, Reason) and found.message != NoLoop.message
    return found if alone is None or says_more else alone


def _alone(program: Program, options: Options, arguments: Sequence[str]) -> Located | Reason | None:
    """What the entry says of itself; None where it speaks of no gradients, or hides some.

    Raises:
        Guessed: other modules may tell what would be guessed.
    """
    if not any(word in program.entry.data for word in (b"backward", b"autograd")):
        return None
    try:
        return choose(program, options, arguments, guesses=len(program.whole.sources) == 1)
    except Declined as declined:
        # what is not seen here, and the options that choose, may stand in other modules
        open_kinds = (GradientsUnseen.kind, SeveralLoops.kind, LoopUnseen.kind, ForwardUnseen.kind)
        if len(program.whole.sources) > 1 and declined.reasons[0].kind in open_kinds:
            return None
        raise
    except UsageError:  # `--loop` may name one of another module
        if len(program.whole.sources) > 1:
            return None
        raise


def _own_inference(program: Program, options: Options) -> Located | None:
    """The inference loop of a program that only infers; None when it has none that it runs."""
    knowledge = Knowledge(program)
    if not infers_only(knowledge):
        return None
    try:
        found = locate_inference(knowledge, options.loop)
    except Declined as declined:
        if declined.reasons[0].kind != NoInferenceLoop.kind:
            raise
        return None
    # a script's own loop, not a function that a library offers
    return found if is_reachable(found.candidate, options) else None


def _locate_other(source: Source, options: Options, roots: Sequence[Path] | None) -> Located:
    """Inference loops and marked lines, in the module or what it imports."""
    program = Program.single(source) if roots is None else Program.load(source, roots)
    knowledge = Knowledge(program)
    if options.region is not None:
        return locate_marked(knowledge, options.region)
    return locate_inference(knowledge, options.loop)


def locate_file(
    path: Path, options: Options, roots: Sequence[Path], arguments: Sequence[str] = ()
) -> Located:
    """As :func:`locate` for a script on disk: also reads its configuration."""
    reason = None if options.multi_chip else folder_reason(path)
    if reason is not None:
        raise Declined(reason)
    source = parse_source(path, read_bytes(path))
    located = locate(source, options, roots, arguments)
    found = [w for w in _of_imports(located, roots) if w not in located.warnings]
    mesh = None if options.multi_chip else mesh_reason(source, arguments)
    if mesh is not None:
        raise Declined(mesh)
    return replace(located, warnings=(*located.warnings, *dict.fromkeys(found)))


def _of_imports(located: Located, roots: Sequence[Path]) -> Iterator[Caveat]:
    """Config classes that the loop itself does not need, for what their defaults do to a run."""
    entry = located.program.entry
    finder = Program(entry, tuple(roots), {entry.path: entry})
    for path in dict.fromkeys(finder.imported_files(entry)):
        if path in located.program.sources:
            continue
        try:
            data = read_bytes(path)
            config = parse(path, data) if b"mesh_shape" in data else None
        except (OSError, SyntaxError):
            continue
        warning = mesh_default_warning([config]) if config is not None else None
        if warning is not None:
            yield warning
