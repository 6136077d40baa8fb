"""The command that runs the versions of two finished runs in turn, as far as the runs tell."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from instrumentor_analysis.compare.model import SideFacts
from instrumentor_analysis.summary.started import chosen, started

#: Digits of a commit.
_SHORT = 9


def in_turn(base: SideFacts, new: SideFacts, options: str = "") -> str:
    """``instrument compare --refs 1a2b3c4d5..6e7f8a9b0 train.py``; empty where they do not tell.

    What differs has to be the commit, or what was started: of files that changed between two runs
    of one commit only the later state is still there. Both commits have to be of one repository,
    and both commands typed in one folder, which the paths of the scripts tell.

    Args:
        options: further ones, as they are typed.
    """
    old, now = started(base.run), started(new.run)
    if not old or not now:
        return ""
    refs = _refs(base.environment, new.environment)
    if refs is None or (refs and old != now) or (not refs and old == now):
        return ""
    if refs and _script(base.run) != _script(new.run):
        return ""
    if len({_typed_in(base.run, old), _typed_in(new.run, now)} - {None}) > 1:
        return ""
    if chosen(base.run) != chosen(new.run):  # a comparison measures the same of both
        return ""
    given = "".join(f"{each} " for each in (options, shlex.join(chosen(new.run))) if each)
    if refs:
        return f"instrument compare {given}--refs {refs} {shlex.join(now)}"
    return f"instrument compare {given}{shlex.join(old)} -- {shlex.join(now)}"


def advised(base: SideFacts, new: SideFacts) -> str:
    """What two runs that a busy machine kept from a conclusion may do beside waiting.

    The end of the sentence that says to measure again: its full stop where the runs do not tell.
    """
    command, old, now = in_turn(base, new), started(base.run), started(new.run)
    told = "run both in turn, so that other programs meet both alike"
    known = all(each.environment.get("git_commit") for each in (base, new))
    if command or not now or old != now or not known:
        return f"; or {told}: {command}" if command else "."
    if _refs(base.environment, new.environment) == "" and not base.environment.get("git_dirty"):
        return "; there is nothing to run in turn, because both runs are of one commit."
    if chosen(base.run) != chosen(new.run):
        return "; the two runs measured other lines: give both the same options."
    typed = shlex.join(now)
    given = "".join(f"{word} " for word in map(shlex.quote, chosen(new.run)))
    return f"; or commit each version and {told}: instrument compare {given}--refs A..B {typed}"


def _script(run: Mapping[str, Any]) -> str:
    """The user's own file."""
    return str(run.get("own_script") or run.get("script") or "")


def _typed_in(run: Mapping[str, Any], words: list[str]) -> str | None:
    """The folder from which the script was started, ending with /; None where nothing tells."""
    script, typed = _script(run), words[0].removeprefix("./")
    if typed == "-m" or typed.startswith("/") or not script.endswith(f"/{typed}"):
        return None
    return script.removesuffix(typed)


def _refs(base: Mapping[str, Any], new: Mapping[str, Any]) -> str | None:
    """``A..B``; empty for one state of the code, None where it is not known."""
    commits = [str(each.get("git_commit") or "")[:_SHORT] for each in (base, new)]
    dirty = [bool(each.get("git_dirty")) for each in (base, new)]
    if commits[0] == commits[1] and dirty[0] == dirty[1]:
        return ""
    if not all(commits) or dirty[0]:
        return None
    return f"{commits[0]}.." if dirty[1] else f"{commits[0]}..{commits[1]}"
