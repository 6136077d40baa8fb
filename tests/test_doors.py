"""Files are opened through one door: `instrumentor_analysis/shared/files.py`, and nowhere else.

Which files these are decides somebody else: a clone, an archive, another user. So no module opens
one by a way of its own; the few that have to stand below, with the reason.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.conftest import ROOT

PACKAGES = (ROOT / "instrumentor", ROOT / "analysis" / "instrumentor_analysis")
DOOR = "analysis/instrumentor_analysis/shared/files.py"

#: Functions by module, and methods of a path, that open, make or copy files, remove a tree of them,
#: unpack what is packed, or read JSON, YAML or TOML that may be anybody's.
FUNCTIONS = {
    "": {"open"},
    "io": {"open", "FileIO"},
    "os": {"open", "fdopen", "truncate", "mknod", "mkfifo", "sendfile", "copy_file_range"},
    "shutil": {"copy", "copy2", "copyfile", "copyfileobj", "copytree", "move", "rmtree"},
    "sqlite3": {"connect"},
    "npy": {"read_array", "open_memmap"},
    "np": {"load", "loadtxt", "genfromtxt", "fromfile", "save", "savetxt"},
    "pd": {"read_csv", "read_json"},
    "tempfile": {"mkstemp", "mkdtemp", "NamedTemporaryFile", "TemporaryFile"},
    "zipfile": {"ZipFile"},
    "tarfile": {"open", "TarFile"},
    "gzip": {"open", "GzipFile", "decompress"},
    "bz2": {"open", "BZ2File", "decompress"},
    "lzma": {"open", "LZMAFile", "decompress"},
    "zlib": {"decompress", "decompressobj"},
    "yaml": {"load", "safe_load", "compose"},
    "tomllib": {"load", "loads"},
    "pickle": {"load", "loads"},
    "mmap": {"mmap"},
    "json": {"load", "loads"},
    "linecache": {"getline", "getlines"},
    "tokenize": {"open"},
}
METHODS = {
    *("open", "read_text", "read_bytes", "write_text", "write_bytes", "touch"),
    "distributions",  # of importlib.metadata: each reads what describes it
}

_SCRIPTS = "the script's own process, with its rights, in folders of its run"
#: Calls by file, and why each is no way for a stranger's file.
ALLOWED: dict[str, tuple[set[str], str]] = {
    DOOR: ({"open", "os.open", "os.fdopen", "shutil.copyfileobj"}, "the door"),
    "analysis/instrumentor_analysis/shared/documents.py": ({"json.loads"}, "the door of JSON"),
    "analysis/instrumentor_analysis/shared/packed.py": (
        {"zipfile.ZipFile", ".open", "zlib.decompressobj"},
        "the door of what is packed",
    ),
    "instrumentor/cli/main.py": ({"os.open"}, "/dev/null"),
    "instrumentor/kernels/number_files.py": (
        {"npy.read_array", "np.loadtxt"},
        "of a stream from the door, whose head was read",
    ),
    "instrumentor/shared/project.py": ({"tomllib.loads"}, "the door of TOML"),
    "instrumentor/shared/yaml_text.py": ({"yaml.load"}, "the door of YAML"),
    "instrumentor/run/known_failures.py": ({"yaml.load"}, "the tool's own table"),
    "instrumentor/tune/yaml_override.py": ({"yaml.compose"}, "after the door has read it"),
    "instrumentor/machine/device_locks.py": ({"os.open"}, "a lock file, made and never written"),
    "instrumentor/results/history.py": ({"sqlite3.connect"}, "by name, after the door has seen it"),
    "instrumentor/kernels/simulate.py": ({"shutil.move"}, "a rename; a link stays a link"),
    "instrumentor/machine/tracy_tools.py": ({"mmap.mmap"}, "of a stream from the door"),
    "instrumentor/run/command.py": ({"shutil.move"}, "a rename; a link stays a link"),
    "instrumentor/run/profilers/base.py": ({"shutil.move"}, "a rename; a link stays a link"),
    "instrumentor/workspace/shadow.py": ({"shutil.move"}, "a rename of a regular file"),
    "instrumentor/workspace/copying.py": ({"shutil.copyfileobj"}, "of streams from the door"),
    "instrumentor/workspace/private_git.py": ({"shutil.copytree"}, "each file by the door"),
    "instrumentor/shared/outputs.py": ({"shutil.copytree"}, "of a folder of ours, by the door"),
    "instrumentor/workspace/kept_copy.py": ({"os.open"}, "folders, and no links to them"),
    "instrumentor/workspace/slots.py": ({"os.open"}, "folders, and no links to them"),
    "instrumentor/workspace/in_place/journal.py": (
        {"json.loads"},
        "paths, in which nothing may be replaced",
    ),
    "instrumentor/workspace/in_place/disk.py": (
        {"os.open", "os.fdopen"},
        "a new file, or what is synced: neither follows a link nor waits",
    ),
    "instrumentor/shared/private.py": ({"os.open"}, "a folder"),
    "instrumentor/shared/removal.py": ({"os.open"}, "folders, to remove what is in them"),
    "instrumentor/runtime/guard.py": (
        {"open", "os.fdopen", "json.loads"},
        "of /proc, the pid's own file, and the tool's own words",
    ),
    "instrumentor/runtime/kernel_gate.py": ({".open"}, _SCRIPTS),
    "instrumentor/runtime/kernel_simulation.py": ({"open", "json.loads"}, _SCRIPTS),
    "instrumentor/runtime/launch.py": ({"open", "json.load"}, _SCRIPTS),
    "instrumentor/runtime/probe.py": ({".distributions"}, "each is looked at before it is read"),
    "instrumentor/runtime/torch_hook.py": ({"open", "json.load"}, _SCRIPTS),
    "instrumentor/runtime/tracy_start.py": ({".read_text"}, "of /proc, in the script's process"),
    "instrumentor/runtime/recorder/flops.py": ({"open", "json.load"}, _SCRIPTS),
    "instrumentor/runtime/recorder/records.py": ({"os.open"}, _SCRIPTS),
    "instrumentor/runtime/recorder/other_processes.py": (
        {"open"},
        "of /proc, in the script's process",
    ),
    "instrumentor/runtime/recorder/host_memory.py": ({"os.open"}, _SCRIPTS),
    "instrumentor/runtime/recorder/runtimes.py": ({"open"}, _SCRIPTS),
    "instrumentor/runtime/recorder/recorder.py": ({".open"}, "no file"),
}


def opens(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and name of each call that opens a file by itself."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        match node.func:
            case ast.Name(id=name) if name in FUNCTIONS[""]:
                yield node.lineno, name
            case ast.Attribute(value=ast.Name(id=module), attr=name) if module in FUNCTIONS:
                if name in FUNCTIONS[module]:
                    yield node.lineno, f"{module}.{name}"
            case ast.Attribute(attr=name) if name in METHODS:
                yield node.lineno, f".{name}"


def found() -> dict[str, dict[str, int]]:
    """The calls by file, each with a line that has it."""
    table: dict[str, dict[str, int]] = {}
    for package in PACKAGES:
        for path in sorted(package.rglob("*.py")):
            calls = {name: line for line, name in opens(ast.parse(path.read_bytes()))}
            if calls:
                table[str(path.relative_to(ROOT))] = calls
    return table


def test_every_file_is_opened_through_the_door() -> None:
    others = [
        f"{path}:{line}: {name}"
        for path, calls in found().items()
        for name, line in calls.items()
        if path not in ALLOWED or name not in ALLOWED[path][0]
    ]
    assert others == []


def test_every_exception_is_needed() -> None:
    there = found()
    assert {path: names for path, (names, _) in ALLOWED.items()} == {
        path: set(there.get(path, ())) for path in ALLOWED
    }


@pytest.mark.parametrize(
    "text",
    [
        "open('x')", "Path('x').read_text()", "path.open('rb')", "os.open(p, 0)", "x.touch()",
        "shutil.move(a, b)", "np.load(p)", "sqlite3.connect(p)", "self.path.write_bytes(b'')",
        "json.loads(x)", "shutil.rmtree(x)", "yaml.safe_load(x)", "zlib.decompress(x)",
    ],
)  # fmt: skip
def test_the_search_sees_other_doors(text: str) -> None:
    assert list(opens(ast.parse(text)))


@pytest.mark.parametrize("text", ["opened(path)", "read_bytes(path)", "write_whole(path, b'')"])
def test_the_search_does_not_see_the_door(text: str) -> None:
    assert not list(opens(ast.parse(text)))
