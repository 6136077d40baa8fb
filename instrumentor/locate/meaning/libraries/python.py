"""Python's own modules."""

from __future__ import annotations

from instrumentor.locate.meaning.libraries.library import Library, rows
from instrumentor.locate.meaning.roles import Effect, Kind, Role

LIBRARY = Library(
    packages=rows(
        "",
        "builtins math random time os sys copy json pathlib logging collections itertools "
        "functools datetime",
    ),
    roles=(
        (Role.LOG, rows("", "builtins.print logging.*")),
        (Role.THREAD, rows("threading.", "Thread Timer")),
        (Role.PROCESS, ("multiprocessing.*Process",)),
        (Role.CLOCK, rows("time.", "time perf_counter* monotonic*")),
        (Role.DEBUGGER, rows("", "builtins.breakpoint pdb.set_trace")),
        (Role.PROFILER, ("cProfile.Profile",)),
        (Role.FETCH, ("builtins.next",)),
    ),
    makes=((Kind.LOGGER, ("logging.getLogger",)),),
    effects=(
        (Effect.NOTHING, rows("os.", "environ.get environ.items environ.keys environ.copy")),
        (Effect.NOTHING, rows("threading.", "Lock RLock")),
        (
            Effect.PROCESS,
            (
                *rows("os.", "_exit abort chdir environ* exec* fork* kill* putenv spawn* system"),
                *rows("sys.", "exit path* set*"),
                *rows("", "random.se* subprocess.* threading.* multiprocessing.* concurrent.*"),
                *rows("", "asyncio.* signal.* atexit.*"),
            ),
        ),
        (Effect.SAVES, rows("os.", "makedirs mkdir remove unlink rename replace symlink rmdir")),
        (Effect.SAVES, rows("", "pickle.dump json.dump shutil.*")),
        (Effect.LOADS, rows("", "pickle.load json.load")),
        (Effect.NOTHING, rows("csv.", "reader DictReader writer DictWriter")),
        (
            Effect.FIRST,
            rows("", "builtins.next random.shuffle operator.*item operator.i* *.shuffle"),
        ),
        (
            Effect.NOTHING,
            rows(
                "builtins.",
                "abs all any ascii bin bool bytes callable chr complex dict dir divmod enumerate "
                "filter float format frozenset getattr hasattr hash hex id int isinstance "
                "issubclass iter len list map max min object oct ord pow print range repr reversed "
                "round set slice sorted str sum super tuple type vars zip *Error *Exception",
            ),
        ),
        (
            Effect.NOTHING,
            rows(
                "",
                "math.* statistics.* cmath.* time.* datetime.* itertools.* functools.* operator.* "
                "copy.* json.* os.* pathlib.* re.* string.* textwrap.* random.* warnings.* gc.* "
                "logging.* traceback.* sys.* typing.* dataclasses.* contextlib.* collections.* "
                "pickle.* struct.*",
            ),
        ),
        (Effect.PROCESS, ("builtins.*",)),
    ),
    draws=("random.*",),
    numbers=(
        *rows("builtins.", "len int float str bool round range repr hash ord chr id isinstance"),
        *rows("", "time.* math.* os.path.* builtins.hasattr builtins.format"),
        *rows("", "re.compile re.match re.search re.fullmatch re.sub re.subn re.escape"),
    ),
    on_host=True,
)
