"""Says as JSON which packages an interpreter would find, without importing them.

Given to that interpreter with ``-I -c`` and the folders to search first; needs the standard library
only, Python 3.8 or newer. ``sys.path`` is never changed: the standard library imports parts of
itself late, and would find the project's.
"""

# os.path throughout: this start-up is part of the user's run.
# ruff: noqa: PTH110, PTH112, PTH116, PTH118, PTH120
from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import json
import os
import site
import stat
import sys
from importlib.machinery import PathFinder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypedDict

    class Found(TypedDict):
        version: str | None
        folders: list[str]


LARGEST_BYTES = 1 << 24  # of a distribution's own description

# import name -> names under which it may have been installed
PACKAGES = {
    "torch": ["torch"],
    "torch_xla": ["torch-xla", "torch_xla"],
    "tracy": ["tracy"],
    "pjrt_plugin_tt": ["pjrt-plugin-tt", "pjrt_plugin_tt"],
    "tt_crank": ["tt-crank", "tt_crank"],
    "ttnn": ["ttnn"],
    "ttl": ["tt-lang", "tt-lang-sim", "ttl"],
    "pandas": ["pandas"],
    "yaml": ["pyyaml"],
    "click": ["click"],
    "loguru": ["loguru"],
    "seaborn": ["seaborn"],
    "websockets": ["websockets"],
}


def packages(first: list[str], with_own: bool = True) -> dict[str, Found]:
    """The packages found in these folders, and in the interpreter's own."""
    path = first + (sys.path + users_own() if with_own else [])
    found = {name: find(name, names, path, with_own) for name, names in PACKAGES.items()}
    return {name: value for name, value in found.items() if value is not None}


def find(name: str, distributions: list[str], path: list[str], with_own: bool) -> Found | None:
    """Version and folders of a package, without importing it; None where it is not found."""
    spec = PathFinder.find_spec(name, path)
    if (spec is None or spec.loader is None) and with_own:
        with contextlib.suppress(ImportError, ValueError):
            # What a finder of the environment knows: editable installs.
            spec = importlib.util.find_spec(name) or spec
    if spec is None:
        return None
    version = None
    for distribution in distributions:
        for known in importlib.metadata.distributions(name=distribution, path=path):
            version = version or (known.version if readable(known) else None)
    folders = list(spec.submodule_search_locations or [])
    if not folders and spec.origin:
        folders = [os.path.dirname(spec.origin)]
    return {"version": version, "folders": folders}


def readable(known: importlib.metadata.Distribution) -> bool:
    """Whether what names a version is a file: a pipe is waited for, and a device has no end."""
    place = str(getattr(known, "_path", ""))
    files = [place, *(os.path.join(place, name) for name in ("METADATA", "PKG-INFO"))]
    facts = [os.stat(file) for file in files if os.path.exists(file)]
    return all(
        stat.S_ISDIR(each.st_mode) or (stat.S_ISREG(each.st_mode) and each.st_size < LARGEST_BYTES)
        for each in facts
    )


def users_own() -> list[str]:
    """The user's site-packages, which ``-I`` leaves out."""
    if sys.prefix != sys.base_prefix or os.environ.get("PYTHONNOUSERSITE"):
        return []
    folder = site.getusersitepackages()
    return [folder] if os.path.isdir(folder) else []


def main() -> None:
    print(
        json.dumps(
            {
                "version": ".".join(map(str, sys.version_info[:3])),
                "packages": packages(sys.argv[1:]),
            }
        )
    )


if __name__ == "__main__":
    main()
