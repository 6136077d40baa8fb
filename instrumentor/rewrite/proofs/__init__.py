"""Proofs that a rewritten file is what was planned and nothing else, before anything runs.

In: the original, the edits and the rewritten bytes; out: nothing, or `ProofFailed`.
"""

from __future__ import annotations

import ast
import subprocess
import warnings
from collections.abc import Collection, Sequence
from pathlib import Path

from instrumentor.rewrite.engine import check_reversible
from instrumentor.rewrite.engine.parsing import parse
from instrumentor.rewrite.proofs.names import check_collisions, check_undefined
from instrumentor.rewrite.proofs.planned import check_planned
from instrumentor.rewrite.proofs.scopes import collect_names
from instrumentor.shared.edits import Edit
from instrumentor.shared.errors import NotReady, ProofFailed

__all__ = ["compiles_under", "prove"]

_COMPILE = """\
import sys
try:
    compile(sys.stdin.buffer.read(), sys.argv[1], "exec", dont_inherit=True)
except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
    line = getattr(error, "lineno", None)
    where = "" if line is None else ":%d" % line
    text = "%s%s: %s" % (sys.argv[1], where, getattr(error, "msg", None) or error)
    sys.stdout.buffer.write(text.encode("utf-8", "replace"))
    sys.exit(3)
"""
_COMPILE_FAILED = 3  # Python itself ends with 1 or 2 where it fails
_TIMEOUT_S = 120


def prove(
    original: bytes,
    instrumented: bytes,
    edits: Sequence[Edit],
    *,
    allowed_names: Collection[str] = (),
) -> None:
    """Check that ``instrumented`` is ``original`` with ``edits`` carried out, and is sound.

    The proofs, in this order:

    * compiles: the result compiles;
    * reversible: taking the edits out gives the original back, byte for byte;
    * planned: the syntax tree is the original's with exactly the planned statements inserted,
      taken out and moved;
    * undefined: no name that was defined for its reader before is undefined now;
    * collisions: no inserted name is a name of the original.

    Args:
        original: the file before.
        instrumented: the file after.
        edits: what was asked for, in the order given to ``apply_edits``.
        allowed_names: names that the inserted code may read without binding them, and may bind
            although the original has them.

    Raises:
        ProofFailed: with the name of the proof and the line of the instrumented file.
    """
    before = _compiled(original, "the original")
    after = _compiled(instrumented, "the result")
    check_reversible(original, instrumented)
    check_planned(original, after, edits)
    names = collect_names(before)
    check_undefined(names, after, allowed_names)
    check_collisions(original, names, edits, allowed_names)


def compiles_under(python: Path, source: bytes, filename: str) -> str | None:
    """Compile a source with another interpreter.

    Args:
        python: the interpreter, of version 3.8 or newer.
        source: the file's bytes.
        filename: named in the error text; need not exist.

    Returns:
        None when it compiles, else ``"<filename>:<line>: <message>"``.

    Raises:
        NotReady: the interpreter cannot be run.
    """
    # Isolated and without site, so that compiling runs nothing of the project.
    command = [str(python), "-I", "-S", "-W", "ignore", "-c", _COMPILE, filename]
    try:
        done = subprocess.run(
            command, input=source, capture_output=True, timeout=_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotReady(
            f"the interpreter {python} cannot be run: {error}", "name another one with --python"
        ) from error
    if done.returncode == 0:
        return None
    if done.returncode == _COMPILE_FAILED:
        return done.stdout.decode("utf-8", "replace")
    details = done.stderr.decode("utf-8", "replace").strip()
    raise NotReady(
        f"the interpreter {python} ended with code {done.returncode}: {details}",
        "name another one with --python",
    )


def _compiled(source: bytes, which: str) -> ast.Module:
    """The syntax tree of a file that compiles."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = parse(source)
            compile(tree, "<instrumented>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", None) or 1
        message = getattr(error, "msg", None) or str(error) or type(error).__name__
        raise ProofFailed(
            f"proof 'compiles' failed at line {line}: {which} does not: {message}"
        ) from error
    return tree
