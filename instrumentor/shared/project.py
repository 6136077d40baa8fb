"""Which project a script belongs to, and from which folders it imports.

Only a walk over the parent folders: no git program, because a dry run asks this
too and has to stay cheap.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import sys
from collections.abc import Container, Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from instrumentor.shared.errors import UsageError
from instrumentor_analysis.shared.files import SETTINGS_BYTES, read_bytes, read_text

# Run at every start of an interpreter that finds them.
CUSTOMIZE = ("sitecustomize", "usercustomize")
MARKERS = ("pyproject.toml", "setup.py", "setup.cfg")
#: An entry of PYTHONPATH that holds one of these is where libraries lie. Read as the program's own
#: code they would lose what is known of them by their names.
_LIBRARIES = (
    *("torch", "torch_xla", "tt_crank", "ttnn", "ttl", "tracy", "numpy", "transformers"),
    *("accelerate", "diffusers", "peft", "deepspeed", "timm", "lightning", "pytorch_lightning"),
)


class Project(Struct, frozen=True):
    """The folder tree that a script belongs to.

    Attributes:
        root: git root of the script; else the nearest folder with a pyproject.toml, setup.py or
            setup.cfg; else the script's folder. Absolute, symlinks resolved.
        git: whether ``root`` is the root of a git working tree.
        own_roots: folders from which the project's modules are imported: the root, src layouts and
            plain package_dir settings, the script's own folder last.
        python_path: the working folder where the script lies below it, as `python -m` has it, and
            the user's PYTHONPATH, without installed packages: may lie outside ``root``, so it is
            read to understand the script and never written to.
    """

    root: Path
    git: bool
    own_roots: tuple[Path, ...]
    python_path: tuple[Path, ...] = ()

    @property
    def import_roots(self) -> tuple[Path, ...]:
        """Folders from which the script may import what is no installed package."""
        return tuple(dict.fromkeys((*self.own_roots, *self.python_path)))

    @property
    def search_path(self) -> tuple[Path, ...]:
        """The project's roots that may join PYTHONPATH, which goes before the standard library.

        The script's own folder holds what it likes: Python puts it on the path after its start.
        """
        return tuple(folder for folder in self.own_roots if not _hides_stdlib(folder))


def below_here(path: Path) -> Path | None:
    """A path from the working folder; None where it does not lie below that, or that is gone."""
    try:
        here = Path.cwd()
    except OSError:
        return None
    return path.relative_to(here) if path.is_relative_to(here) else None


def seen_from_here(path: Path) -> str:
    """A file as messages name it: from the working folder; one that lies elsewhere by its name."""
    return str(below_here(path) or path.name)


def find_project(script: Path) -> Project:
    """Find the project of a script.

    Raises:
        UsageError: the script is not an existing file.
    """
    file = script.resolve()
    if not file.is_file():
        raise UsageError(
            f"{script} is not a file",
            "Give the path of the training script, relative to the current folder or absolute.",
        )
    found = _begins(file, _trusted(file))
    own_roots = _own_roots(found.root, found.package, file.parent)
    further = (*_working_folder(found.root, file), *python_path())
    return Project(found.root, found.git is not None, own_roots, further)


def ignored_mark(script: Path) -> str:
    """One sentence where a script's project would be another one if a stranger's file counted.

    Empty where none is ignored, or nothing follows from it.
    """
    file = script.resolve()
    if not file.is_file():
        return ""
    trusted = _trusted(file)
    found, other = _begins(file, trusted), _begins(file, _Everybody())
    if found == other:
        return ""
    marks = [other.root / ".git", *(other.package / name for name in MARKERS)]
    for path in (*marks, found.root / "__init__.py"):
        if path.exists() and (owner := path.lstat().st_uid) not in trusted:
            at, not_at = found.root, other.root
            if at == not_at:  # of a package in a repository
                at, not_at = found.package, other.package
            told = f"{path} belongs to another user ({owner}): it is ignored"
            return f"{told}, so that the project begins at {at}, not at {not_at}"
    return ""


class _Begin(Struct, frozen=True):
    """Where a project begins: its repository, if any, its packaging metadata, and itself."""

    git: Path | None
    package: Path
    root: Path


def _begins(file: Path, trusted: Container[int]) -> _Begin:
    """Where a script's project begins by the word of these users."""
    parents = tuple(_candidates(file.parent, trusted))
    git_root = next((p for p in parents if is_git_root(p) and not _planted(p, trusted)), None)
    marked = next((p for p in parents if _is_marked(p, trusted)), None)
    # A pyproject.toml above the repository is another project's.
    if git_root is not None and marked is not None and not marked.is_relative_to(git_root):
        marked = None
    root = git_root or marked or _import_folder(file.parent, trusted)
    return _Begin(git_root, marked or root, root)


class _Everybody:
    """All users."""

    def __contains__(self, user: object) -> bool:
        return True


def _working_folder(root: Path, file: Path) -> Iterator[Path]:
    """The working folder where the project's script may have been named from it as a module.

    Of a script that is started by its path Python does not search it: then what is imported from
    there is found elsewhere, or nowhere.
    """
    here = Path.cwd()
    if file.parent.is_relative_to(here) and here.is_relative_to(root):
        yield here


def python_path() -> Iterator[Path]:
    """PYTHONPATH as the run will have it: relative entries count from the working folder."""
    for entry in filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)):
        folder = Path(entry).resolve()
        installed = {"site-packages", "dist-packages"}.intersection(folder.parts) or any(
            (folder / name).is_dir() or (folder / f"{name}.py").is_file() for name in _LIBRARIES
        )
        if folder.is_dir() and not installed:
            yield folder


def is_git_root(folder: Path) -> bool:
    """Whether git's working tree starts here: a repository, a linked worktree or a submodule."""
    dot_git = folder / ".git"
    if dot_git.is_dir():
        return (dot_git / "HEAD").exists()
    try:
        return read_bytes(dot_git, SETTINGS_BYTES)[:7] == b"gitdir:"
    except OSError:
        return False


def _trusted(script: Path) -> frozenset[int]:
    """Users whose files say where a script's project begins, from where a run imports.

    This one, root (the owner of /, whatever its number is in a container), and the script's owner,
    whose code runs anyway.
    """
    every = (Path("/"), script)
    return frozenset({os.geteuid(), 0, *(path.stat().st_uid for path in every)})


def _planted(folder: Path, trusted: Container[int]) -> bool:
    """Whether a repository is somebody's who may put things here as everybody may, as in /tmp.

    Of one that is another user's elsewhere, git says whether it is accepted.
    """
    return _is_open(folder) and (folder / ".git").lstat().st_uid not in trusted


def _is_open(folder: Path) -> bool:
    return bool(folder.stat().st_mode & stat.S_IWOTH)


def _import_folder(folder: Path, trusted: Container[int]) -> Path:
    """The folder from which a package of the script's can be imported; else the script's own.

    Never one of all users (/tmp): what lies there would be imported, too.
    """
    while _is_package(folder, trusted) and folder != folder.parent:
        above = folder.parent
        shared = above.stat()
        if _is_open(above) and (shared.st_mode & stat.S_ISVTX or shared.st_uid not in trusted):
            break
        folder = above
    return folder


def _is_package(folder: Path, trusted: Container[int]) -> bool:
    return _counts(folder / "__init__.py", trusted)


def _counts(path: Path, trusted: Container[int]) -> bool:
    """Whether a file is there, by the word of somebody who is trusted: of a link, who made it."""
    return path.is_file() and path.lstat().st_uid in trusted


def _candidates(folder: Path, trusted: Container[int]) -> Iterator[Path]:
    """Parents that can be a project's root.

    A home folder kept in git (dotfiles) is nobody's training project, unless it is packaged.
    """
    home = home_folder()
    for parent in (folder, *folder.parents):
        if parent == parent.parent or (parent == home and not _is_marked(parent, trusted)):
            return
        yield parent


def home_folder() -> Path | None:
    """The user's home folder; None for a user without one, as in some containers."""
    try:
        return Path.home().resolve()
    except RuntimeError:
        return None


def _is_marked(folder: Path, trusted: Container[int]) -> bool:
    return any(_counts(folder / name, trusted) for name in MARKERS)


def _own_roots(root: Path, package: Path, script_folder: Path) -> tuple[Path, ...]:
    wanted: list[Path] = []
    for base in dict.fromkeys((root, package)):
        wanted.append(base)
        if (base / "src").is_dir() and not (base / "src" / "__init__.py").exists():
            wanted.append(base / "src")
        wanted += [base / name for name in _package_folders(base) if (base / name).is_dir()]
    # On PYTHONPATH a folder goes before the standard library: a root that holds a `platform.py`
    # which the script never saw would break the interpreter itself.
    roots = [r for r in map(Path.resolve, wanted) if r.is_relative_to(root) and r != script_folder]
    roots = [r for r in roots if not _hides_stdlib(r)]
    return (*dict.fromkeys(roots), script_folder)


def _hides_stdlib(folder: Path) -> bool:
    for entry in folder.iterdir():
        stem, dot, suffix = entry.name.partition(".")
        if stem not in sys.stdlib_module_names and stem not in CUSTOMIZE:
            continue
        if (dot and suffix == "py") or (not dot and (entry / "__init__.py").exists()):
            return True
    return False


def _package_folders(base: Path) -> Iterator[str]:
    """Folders that the packaging metadata names as the top of the packages, where it is plain.

    Metadata that cannot be read names none: whoever builds the project will say so.
    """
    with contextlib.suppress(OSError, ValueError):
        yield from _from_pyproject(read_bytes(base / "pyproject.toml", SETTINGS_BYTES))
    with contextlib.suppress(OSError, ValueError):
        yield from _from_setup_cfg(read_text(base / "setup.cfg", limit=SETTINGS_BYTES))


def _from_pyproject(data: bytes) -> Iterator[str]:
    if not any(word in data for word in (b"package-dir", b"where", b"from", b"packages")):
        return  # most say nothing of packages, and reading TOML is slow to import
    tool = read_toml(data).get("tool")
    yield from _strings(_setting(tool, "setuptools", "package-dir", ""))
    yield from _strings(_setting(tool, "setuptools", "packages", "find", "where"))
    listed = _setting(tool, "poetry", "packages")
    for entry in listed if isinstance(listed, list) else ():
        yield from _strings(_setting(entry, "from"))
    for name in _strings(_setting(tool, "hatch", "build", "targets", "wheel", "packages")):
        yield name.rpartition("/")[0]


_MOST_PARTS = 1000  # of a dotted key
_NO_KEY = re.compile(rb"[=,{}\[\]\n]")


def read_toml(data: bytes) -> dict[str, Any]:
    """The document of a TOML file.

    Raises:
        ValueError: it is not TOML, not UTF-8, or nested too deeply.
    """
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    # The parser takes the square of a key's parts: a file of 200 KB would keep it for a minute.
    if any(part.count(b".") > _MOST_PARTS for part in _NO_KEY.split(data)):
        raise ValueError("nested too deeply")
    try:
        return tomllib.loads(data.decode("utf-8"))
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _from_setup_cfg(text: str) -> Iterator[str]:
    import configparser  # few projects have one

    parser = configparser.ConfigParser(interpolation=None)
    try:
        parser.read_string(text)
    except configparser.Error as error:
        raise ValueError(str(error)) from error
    for line in parser.get("options", "package_dir", fallback="").splitlines():
        package, _, folder = line.partition("=")
        if not package.strip():
            yield folder.strip()  # of an empty line none, which is the base itself
    yield from parser.get("options.packages.find", "where", fallback="").split()


def _setting(table: object, *keys: str) -> object:
    for key in keys:
        table = table.get(key) if isinstance(table, Mapping) else None
    return table


def _strings(value: object) -> list[str]:
    values = value if isinstance(value, (list, tuple)) else [value]
    return [v for v in values if isinstance(v, str)]
