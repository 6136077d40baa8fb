"""Says as JSON which packages an interpreter would find, without importing them.

Given to that interpreter with ``-c``; needs the standard library only, Python 3.8 or newer.
"""

# os.path throughout: this start-up is part of the user's run.
# ruff: noqa: PTH120
from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import sys

# import name -> names under which it may have been installed
PACKAGES = {
    "torch": ["torch"],
    "torch_xla": ["torch-xla", "torch_xla"],
    "tracy": ["tracy"],
    "pjrt_plugin_tt": ["pjrt-plugin-tt", "pjrt_plugin_tt"],
    "ttnn": ["ttnn"],
    "pandas": ["pandas"],
    "yaml": ["pyyaml"],
    "click": ["click"],
    "loguru": ["loguru"],
    "seaborn": ["seaborn"],
    "websockets": ["websockets"],
}


def find(name: str, distributions: list[str]) -> object:
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None
    if spec is None:
        return None
    version = None
    for distribution in distributions:
        try:
            version = importlib.metadata.version(distribution)
            break
        except importlib.metadata.PackageNotFoundError:
            pass
    folders = list(spec.submodule_search_locations or [])
    if not folders and spec.origin:
        folders = [os.path.dirname(spec.origin)]
    return {"version": version, "folders": folders}


def main() -> None:
    found = {name: find(name, names) for name, names in PACKAGES.items()}
    print(
        json.dumps(
            {
                "version": ".".join(map(str, sys.version_info[:3])),
                "executable": sys.executable,
                "prefix": sys.prefix,
                "packages": {name: value for name, value in found.items() if value},
            }
        )
    )


main()
