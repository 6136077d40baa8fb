"""The script that is tuned: its modules, where its loop is, which YAML it reads."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from instrumentor.locate import locate_file
from instrumentor.locate.experiment_yaml import config_path
from instrumentor.locate.located import Located
from instrumentor.read.program import Program
from instrumentor.read.syntax import ScopeNode, Source, callee
from instrumentor.rewrite.prepare import script_path
from instrumentor.shared.errors import InstrumentError
from instrumentor.shared.options import Options
from instrumentor.shared.project import Project, find_project
from instrumentor_analysis.shared.files import read_bytes


class NotApplicable(InstrumentError):
    """A setting cannot be applied to this script; nothing is wrong with the script.

    Attributes:
        file, line: where that shows.
        reason: why, one sentence.
    """

    exit_code = 3

    def __init__(self, file: Path, line: int, reason: str, hint: str = "") -> None:
        super().__init__(f"{file}:{line}: {reason}", hint)
        self.file = file
        self.line = line
        self.reason = reason


class Config(Struct, frozen=True):
    """The YAML of the run.

    Attributes:
        path: absolute.
        why_not: why a changed copy would not be what the run reads, else ''.
    """

    path: Path
    why_not: str = ""


class Target(Struct, eq=False):
    """The script, read once.

    Attributes:
        script: absolute path.
        program: the script with the modules of its project that it imports.
        located: its loop.
        config: the YAML that the run reads, None without one.
    """

    script: Path
    arguments: tuple[str, ...]
    cwd: Path
    options: Options
    project: Project
    program: Program
    located: Located
    config: Config | None

    @property
    def entry(self) -> Source:
        """The script itself."""
        return self.program.entry

    @property
    def loop_source(self) -> Source:
        """The module that holds the loop."""
        return self.located.candidate.source

    @property
    def sources(self) -> tuple[Source, ...]:
        """All modules: the script, the loop's, the others."""
        first = (self.entry, self.loop_source)
        return tuple(dict.fromkeys((*first, *self.program.sources.values())))

    def digest(self) -> str:
        """A mark of the content of every file that a configuration may change."""
        files = {source.path: source.data for source in self.sources}
        if self.config is not None:
            files[self.config.path] = read_bytes(self.config.path)
        total = hashlib.sha256()
        for path, data in sorted(files.items()):
            # With the lengths, so that text cannot move from one file to the next unnoticed.
            total.update(f"{path}\0{len(data)}\0".encode() + data)
        return total.hexdigest()

    def outermost_loop(self) -> ast.stmt:
        """The statement of the loop's own scope that holds all of the loop."""
        loop = self.located.candidate.loop
        around = self.loop_source.loops_around(loop)
        return around[-1] if around else loop

    def calls(self, name: str) -> Iterator[tuple[Source, ScopeNode, ast.stmt, ast.Call]]:
        """Calls of a function or method by its own name, in order of module and line."""
        for source in self.sources:
            calls = source.calls if name.encode() in source.data else ()
            for node in sorted(calls, key=lambda call: (call.lineno, call.col_offset)):
                statement = source.statement_of(node) if callee(node) == name else None
                if statement is not None:
                    yield source, source.scope_of(statement), statement, node


def read_target(script: Path, arguments: Sequence[str], cwd: Path, options: Options) -> Target:
    """Find the loop, the modules and the YAML of a script.

    Args:
        script: relative to ``cwd`` unless absolute.
        arguments: of the script; they may choose the loop and name the YAML.

    Raises:
        Declined, UsageError: as for a run.
    """
    path = script_path(script if script.is_absolute() else cwd / script)
    project = find_project(path)
    located = locate_file(path, options, project.import_roots, arguments)
    program = located.program
    # The loop was found in the script alone; a setting may be in any module that it imports.
    if len(program.sources) == 1:
        program = Program.load(program.entry, project.import_roots)
    return Target(
        path,
        tuple(arguments),
        cwd,
        options,
        project,
        program,
        located,
        _config(program.entry, arguments, cwd, project),
    )


def _config(entry: Source, arguments: Sequence[str], cwd: Path, project: Project) -> Config | None:
    found = config_path(entry, arguments)
    if found is None:
        return None
    given = found[0]
    path = (cwd / given).resolve()
    if not path.is_file():
        return None
    if not path.is_relative_to(project.root):
        return Config(path, f"{path} lies outside {project.root}, and only that is copied")
    if given.is_absolute() and found[1] == 0:
        return Config(path, "--config has an absolute path, which leads past the copy")
    return Config(path)
