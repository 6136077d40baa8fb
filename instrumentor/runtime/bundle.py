"""The recorder's modules as one text: a module of the run's own, or a block inside a script."""

from __future__ import annotations

import ast
import textwrap
from pathlib import Path

import instrumentor_analysis
from instrumentor.shared.options import Options
from instrumentor_analysis.shared.files import read_text, write_whole

MODULE = "_instrument_recorder"
FOLDER_NAME = "recorder"  # of scratch, for that module
FOLDER = Path(__file__).resolve().parent / "recorder"
#: What the reports compute as well, from the standard library alone.
SHARED = Path(instrumentor_analysis.__file__).resolve().parent / "clock"
#: What observes a script as it is.
OBSERVING = ("observer", "whole_step")

_OWN = ("from instrumentor.", "from instrumentor_analysis.")
_TYPING = "from typing import "
_MODULE_END = '''\
_recorder = {make}


def __getattr__(name):
    """Whoever takes the recorder is an instrumented module that runs."""
    if name != "recorder":
        raise AttributeError(name)
    taker = sys._getframe(1).f_globals
    if taker.get("__name__") != "__mp_main__":  # a worker's copy of the script
        _recorder.records.load(taker.get("__file__", ""))
    return _recorder
'''
_OBSERVE = '''

def observe(what):
    """Watch the script that is about to start, once it has imported torch."""
    learner = Observer(_recorder.records) if what == "step" else WholeSteps(_recorder)
    AfterTorch(learner.start)
'''
# A function around the recorder's code keeps its names out of the script's.
_FACTORY = """\
def {recorder}_recorder(file):
{body}
    recorder = {make}
    recorder.records.load(file)
    return recorder


{recorder} = {recorder}_recorder(globals().get("__file__", ""))"""


def module_text(options: Options, *, observing: bool = False) -> str:
    """The module :data:`MODULE`: ``from _instrument_recorder import recorder``.

    Args:
        observing: with ``observe("step")`` and ``observe("whole step")``, for a script as it is.
    """
    imports, body = _joined(*(OBSERVING if observing else ()))
    head = '"""Added by instrument beside its temporary copy: what the inserted lines call."""'
    end = _MODULE_END.format(make=_make(options)) + (_OBSERVE if observing else "")
    return f"{head}\n\n{imports}\n\n\n{body}\n\n{end}"


def write_module(scratch: Path, options: Options, *, observing: bool = False) -> Path:
    """Write the module into a folder below scratch; the folder, which is to be imported from."""
    folder = scratch / FOLDER_NAME
    folder.mkdir()
    text = module_text(options, observing=observing)
    write_whole(folder / f"{MODULE}.py", text.encode())
    return folder


def block_text(options: Options, recorder: str) -> str:
    """Statements that bind a name to the recorder, for a file that is to run by itself."""
    imports, body = _joined()
    inside = textwrap.indent(f"{imports}\n\n{body}", "    ")
    return _FACTORY.format(recorder=recorder, body=inside, make=_make(options))


def _make(options: Options) -> str:
    numbers = f"steps={options.samples}, warmup={options.leading}, budget_s={options.budget_s}"
    if options.phases is not None:
        numbers += f", phases={options.phases}"
    return f'Recorder({numbers}, profiler="{options.profiler}")'


def _joined(*more: str) -> tuple[str, str]:
    """(import lines, everything else) of the recorder's modules, and of more."""
    parts = modules_of("recorder", *more)
    imports = {line for found, _ in parts.values() for line in found if not line.startswith(_OWN)}
    typing = {line for line in imports if line.startswith(_TYPING)}
    # Every module imports other names of typing: together they are one line.
    names = {name for line in typing for name in line.removeprefix(_TYPING).split(", ")}
    lines = [*sorted(imports - typing), _TYPING + ", ".join(sorted(names))]
    return "\n".join(lines), "\n\n\n".join(body for _, body in parts.values())


#: Import lines, and the rest.
_Part = tuple[list[str], str]


def modules_of(*names: str, found: dict[str, _Part] | None = None) -> dict[str, _Part]:
    """The parts of each module and of those that it imports, which stand before it."""
    found = {} if found is None else found
    for name in names:
        if name in found:
            continue
        places = (FOLDER / f"{name}.py", SHARED / f"{name}.py")
        text = read_text(next(path for path in places if path.is_file()))
        nodes = [n for n in ast.parse(text).body if isinstance(n, (ast.Import, ast.ImportFrom))]
        imports = list(map(ast.unparse, nodes))
        used = [line.split()[1].rpartition(".")[2] for line in imports if line.startswith(_OWN)]
        modules_of(*used, found=found)
        last = nodes[-1].end_lineno if nodes else 0
        found[name] = imports, "\n".join(text.split("\n")[last:]).strip("\n")
    return found
