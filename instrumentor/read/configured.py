"""Classes that a Hydra configuration names: what `hydra.utils.instantiate(cfg.agent)` makes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from instrumentor.read.syntax import Source, argument, callee, dotted, last
from instrumentor_analysis.shared.files import opened

#: A script's configuration files that are read, and how much of each.
_MOST_FILES, _MOST_BYTES = 200, 200_000
_ENTRY = re.compile(r"( *)(?:- )?([\w-]+) *: *([^\s#]*)")
#: Keys that name a class: today's, and those of Hydra before 1.0.
_NAMES_A_CLASS = ("_target_", "class", "cls", "target")
_CLASS = re.compile(r"(?:\w+\.)+[A-Za-z_]\w*")
_ENDINGS = ("_cfg", "_config", "_conf")

#: What `instantiate` is called where it is imported.
INSTANTIATE = ("hydra.utils.instantiate", "hydra.utils.call")


def classes_by_key(entry: Source) -> dict[str, list[str]]:
    """Dotted names of classes by the key that they stand under; those of all keys under ''."""
    found: dict[str, list[str]] = {}
    for path in islice(_files(entry), _MOST_FILES):
        try:
            with opened(path) as stream:
                text = stream.read(_MOST_BYTES).decode("utf-8", "replace")
        except OSError:
            continue
        for keys, name in _named(text):
            for key in {*(keys or (path.stem, path.parent.name)), ""}:
                found.setdefault(key, []).append(name)
    return {key: list(dict.fromkeys(names)) for key, names in found.items()}


def key_of(call: ast.Call) -> str:
    """The key of what a call is given: `agent` of `cfg.agent`, `critic` of `critic_cfg`."""
    word = last(dotted(call.args[0])) if call.args else ""
    return next((word[: -len(end)] for end in _ENDINGS if word.endswith(end)), word)


def _named(text: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """Classes that a file names, each with the key above it; with none at the top of the file."""
    above: list[tuple[int, str]] = []
    for line in text.splitlines():
        entry = _ENTRY.match(line)
        if entry is None:
            continue
        indent, key, value = len(entry[1]), entry[2], entry[3].strip("'\"")
        above = [(i, k) for i, k in above if i < indent]
        if key in _NAMES_A_CLASS and _CLASS.fullmatch(value):
            yield tuple(k for _, k in above[-1:]), value
        elif not value:
            above.append((indent, key))


def _files(entry: Source) -> Iterator[Path]:
    """The configuration that the entry's `@hydra.main` names: a file, or those of a folder."""
    decorators = (d for function in entry.functions for d in function.decorator_list)
    for each in decorators:
        if not isinstance(each, ast.Call) or callee(each) != "main":
            continue
        folder = argument(each, "config_path")
        if not isinstance(folder, ast.Constant) or not isinstance(folder.value, str):
            continue
        path = entry.path.parent / folder.value
        if path.is_file():
            yield path
        elif path.is_dir():
            inside = path.glob if path == entry.path.parent else path.rglob
            yield from sorted(p for end in ("yaml", "yml") for p in inside(f"*.{end}"))
