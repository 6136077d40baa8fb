"""Entry point of `instrument`: one error seam, documented exit codes, a short way to a dry run."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

# Everything else is imported where an interrupt, even one in the first moment, is answered.
if TYPE_CHECKING:
    from collections.abc import Sequence

    from instrumentor.shared.errors import InstrumentError

# Verbs that take `-m MODULE` in the place of a script.
_RUN_MODULES = ("run", "explain", "preview")

# Verbs without children, threads or temporary files of their own.
_ONLY_READ = (["report"], ["--dry-run"])


def main(argv: Sequence[str] | None = None) -> None:
    """End the process with the exit code of one command line."""
    asked = list(sys.argv[1:] if argv is None else argv)
    code = call(asked)
    if asked[:1] in _ONLY_READ:
        # They leave nothing to close, and to free every object one by one takes 50 ms.
        import contextlib
        import os

        with contextlib.suppress(BrokenPipeError):
            sys.stdout.flush()
        os._exit(code)
    sys.exit(code)


def call(argv: list[str]) -> int:
    """Run one command line; returns its exit code, printing errors as what / do this."""
    try:
        return _answered(argv)
    except KeyboardInterrupt:
        # Not through the console module: it may be what was being imported.
        print("interrupted", file=sys.stderr, flush=True)
        return 130
    except MemoryError:
        # Nothing is imported here: that takes memory, too.
        told = "error: not enough memory\nhint: Free some, or raise the limit (ulimit -v)."
        print(told, file=sys.stderr, flush=True)
        return 4  # as what the machine lacks


def _answered(argv: list[str]) -> int:
    import os

    from instrumentor.shared import console
    from instrumentor.shared.errors import InstrumentError, UsageError, of_the_system
    from instrumentor_analysis.shared.errors import AnalysisError

    console.accept_every_character()
    try:
        code = _dispatch(argv)
        sys.stdout.flush()
        return code
    except InstrumentError as error:
        console.fail(error)
        return error.exit_code
    except AnalysisError as error:  # what was named cannot be read, or not be compared
        unread = UsageError(error.message, error.hint)
        console.fail(unread)
        return unread.exit_code
    except BrokenPipeError:
        # The reader has gone (`| head`): let the interpreter's own last flush go nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        told = _without_a_folder(error) or of_the_system(error)
        if told is None:
            raise
        console.fail(told)
        return told.exit_code


def _without_a_folder(error: OSError) -> InstrumentError | None:
    """The error of a working directory that is gone: a shell may be in one that was removed."""
    from pathlib import Path

    from instrumentor.shared.errors import UsageError

    if isinstance(error, FileNotFoundError):
        try:
            Path.cwd()
        except FileNotFoundError:
            return UsageError("the working directory no longer exists", "cd to one that does.")
    return None


def _dispatch(argv: list[str]) -> int:
    from instrumentor.shared import console
    from instrumentor.workspace import recovery

    if argv[:1] != ["restore"]:  # which tells more of it
        recovery.recover(console.say, console.warn)
    if _plain_preview(argv):
        # A dry run makes no garbage worth looking for, and half its time is imports.
        import gc
        from pathlib import Path

        gc.disable()
        from instrumentor.cli.diff_preview import show
        from instrumentor.run.launchers import Started
        from instrumentor.shared.options import Options

        show(Started(Path(argv[1])), Options())
        return 0
    from instrumentor.cli.app import invoke

    return invoke(as_meant(argv))


def as_meant(argv: list[str]) -> list[str]:
    """A script, or `-m` and a module, alone are run.

    Raises:
        UsageError: the first word is neither a verb nor a script.
    """
    from pathlib import Path

    from instrumentor.cli.verbs import VERBS

    first = argv[0] if argv else ""
    if first == "-m":
        return as_meant(["run", *argv])
    if first.startswith("-") and "--dry-run" in argv:
        at = argv.index("--dry-run")
        return as_meant(["preview", *argv[:at], *argv[at + 1 :]])
    if first in _RUN_MODULES and "-m" in argv:
        at = argv.index("-m")
        if not any(Path(word).is_file() for word in argv[1:at]):
            return [*argv[: at + 2], "--", *argv[at + 2 :]]  # what follows the module is its own
        return argv  # a -m that follows a script is the script's
    if not first or first.startswith("-") or first in VERBS:
        return argv
    # A notebook or a folder cannot be run: `run` says so, and what can.
    if first.endswith((".py", ".ipynb")) or Path(first).exists():
        return ["run", *argv]
    raise _unknown(first)


def _unknown(word: str) -> Exception:
    """The error of a first word that is neither a verb nor a script."""
    import difflib

    from instrumentor.cli.verbs import VERBS
    from instrumentor.shared.errors import UsageError

    near = difflib.get_close_matches(word, [*VERBS, "--dry-run", "--help", "--version"], 1)
    hint = f"Did you mean: instrument {near[0]}" if near else f"Commands: {', '.join(VERBS)}."
    return UsageError(f"{word!r} is neither a command nor a script that exists", hint)


def _plain_preview(argv: list[str]) -> bool:
    """`--dry-run SCRIPT` with nothing to choose: no need to build the whole command line."""
    if len(argv) != 2 or argv[0] != "--dry-run" or argv[1].startswith("-"):
        return False
    import os
    from pathlib import Path

    from instrumentor.cli.config import find_defaults
    from instrumentor.shared.option_fields import options_of
    from instrumentor.shared.options import Options

    if any(
        os.environ.get(f"INSTRUMENT_{name.upper()}")
        for name in (*options_of(Options), "full", "verbose")
    ):
        return False

    found = find_defaults(Path.cwd())
    return not found.table and not found.ignored


if __name__ == "__main__":
    main()
