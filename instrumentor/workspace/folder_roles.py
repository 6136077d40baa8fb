# ruff: noqa: PTH112, PTH113
# (plain strings: asked of every folder of a project)
"""What a folder or file is for, told by its name: data, output, tool cache, environment.

Only ignored and untracked things are judged by name; what git tracks is always copied.
"""

from __future__ import annotations

import os
from enum import Enum
from pathlib import Path

from instrumentor_analysis.shared.files import RUNS_FOLDER, opened

LARGE_BYTES = 64 * 1024 * 1024
"""Files above this size are linked instead of copied, unless a script is likely to write them."""

DATA = frozenset([
    "data", "dataset", "datasets", ".data", ".cache", "cache", "caches", "corpus", "corpora",
    "download", "downloads", "huggingface", ".huggingface", "hf_home", "torch_home", ".torch",
    "pretrained", "pretrained_models",
])  # fmt: skip
DATA_ENDINGS = ("_data", "-data", "_dataset", "-dataset", "_datasets", "_cache", "-cache")

OUTPUT = frozenset([
    "checkpoint", "checkpoints", "ckpt", "ckpts", "result", "results", "wandb", "runs", "run",
    "logs", "log", "output", "outputs", "out", "lightning_logs", "mlruns", "multirun",
    "tensorboard", "tb_logs", "tb_log", "artifacts", "build", "dist", "profiles", "traces",
    "generated_profiler", "tracy_profile",
])  # fmt: skip
OUTPUT_ENDINGS = tuple(
    f"{joint}{word}"
    for joint in "_-"
    for word in ("checkpoint", "checkpoints", "ckpt", "results", "outputs", "output", "logs")
)

TOOLS = frozenset([
    ".git", ".hg", ".svn", ".tox", ".nox", ".mypy_cache", ".pytest_cache", ".ruff_cache",
    ".hypothesis", ".ipynb_checkpoints", ".idea", ".vscode", ".eggs", "__pycache__",
    "node_modules",
])  # fmt: skip
ENVIRONMENTS = frozenset(["venv", ".venv", "env", ".env", "virtualenv", ".conda"])

SOURCE_SUFFIXES = frozenset((".py", ".pyi", ".pyx", ".pxd", ".ipynb"))
WRITTEN_SUFFIXES = frozenset([
    ".pt", ".pth", ".ckpt", ".safetensors", ".pkl", ".pickle", ".log", ".out", ".tracy", ".csv",
    ".jsonl", ".tmp",
])  # fmt: skip
"""Files that training scripts write: a link to one of these could be written through."""

OUR_RECORDS = frozenset(["run.json", "session.json", "journal.jsonl", "pairs.json"])
"""Each folder that this tool writes holds one of them, with its schema near the beginning."""


class Role(str, Enum):
    """What the folder is for."""

    PLAIN = "plain"
    DATA = "data"
    OUTPUT = "output"
    TOOL = "tool"
    ENVIRONMENT = "environment"
    OUR_RUN = "our run"


def role_of_name(name: str) -> Role:
    """Role that the bare name of a folder suggests."""
    low = name.lower()
    if low in TOOLS:
        return Role.TOOL
    if low in OUTPUT or low.endswith(OUTPUT_ENDINGS):
        return Role.OUTPUT
    if low in DATA or low.endswith(DATA_ENDINGS):
        return Role.DATA
    return Role.PLAIN


def role_of_folder(folder: str) -> Role:
    """Role of an existing folder that git does not track, by name and by telling files in it."""
    if is_environment(folder):
        return Role.ENVIRONMENT
    if is_our_run(folder):
        return Role.OUR_RUN
    role = role_of_name(folder.rpartition("/")[2])
    if role in (Role.DATA, Role.OUTPUT) and os.path.isfile(f"{folder}/__init__.py"):
        return Role.PLAIN  # a package that happens to be called data, logs or results
    return role


def is_environment(folder: str | Path) -> bool:
    """Whether the folder is a virtual or conda environment."""
    return os.path.isfile(f"{folder}/pyvenv.cfg") or os.path.isdir(f"{folder}/conda-meta")


def is_our_run(folder: str) -> bool:
    """Whether the folder is the output of earlier runs, kernel sessions or tunings of this tool."""
    if folder.rpartition("/")[2] == RUNS_FOLDER:
        return os.path.isfile(f"{folder}/.gitignore")
    return any(_is_ours(f"{folder}/{name}") for name in OUR_RECORDS)


def _is_ours(record: str) -> bool:
    try:
        with opened(record) as stream:
            return b'"schema": "instrument-' in stream.read(4096)
    except OSError:
        return False


def is_source(name: str) -> bool:
    """Whether the file is Python source, which is copied whatever its size."""
    return Path(name).suffix.lower() in SOURCE_SUFFIXES


def is_written(name: str) -> bool:
    """Whether scripts commonly write a file of this name."""
    return Path(name).suffix.lower() in WRITTEN_SUFFIXES


def outer_role(relative: str) -> Role:
    """Role given by the enclosing folders of a file: OUTPUT wins over DATA, else PLAIN."""
    roles = {role_of_name(part) for part in relative.split("/")[:-1]}
    for role in (Role.TOOL, Role.OUTPUT, Role.DATA):
        if role in roles:
            return role
    return Role.PLAIN
