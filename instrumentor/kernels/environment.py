"""The environment variables of tt-lang's profilers: one mode at a time, nothing that waits."""

from __future__ import annotations

from collections.abc import Mapping

#: Mid-run dumps, because tt-lang reads the device log after each call of a kernel.
_ALWAYS = {"TT_METAL_DEVICE_PROFILER": "1", "TT_METAL_PROFILER_MID_RUN_DUMP": "1"}
#: By mode, never two: tt-lang's signpost profile excludes its auto-profile.
_OF_MODE: Mapping[str, Mapping[str, str]] = {
    "auto-profile": {"TTLANG_AUTO_PROFILE": "1"},
    "perf": {"TTLANG_PERF_DUMP": "1", "TT_METAL_DEVICE_PROFILER_NOC_EVENTS": "1"},
    "signposts": {"TTLANG_SIGNPOST_PROFILE": "1"},
}
MODES = tuple(_OF_MODE)
#: Variable -> why it may not reach any run.
_FORBIDDEN = {
    "TTLANG_PERF_SERV": "it starts a server that waits for Enter",
    "TTLANG_COMPILE_ONLY": "the kernel would be compiled and not run",
}
_OFF = ("", "0")


def mode_variables(mode: str) -> dict[str, str]:
    """Environment variables that switch a mode's profiler on."""
    return {**_ALWAYS, **_OF_MODE[mode]}


def without_profilers(base: Mapping[str, str]) -> dict[str, str]:
    """``base`` for a run that is only to be checked: no profiler of any mode."""
    names = {*_ALWAYS, *_FORBIDDEN, *(n for variables in _OF_MODE.values() for n in variables)}
    return {name: value for name, value in base.items() if name not in names}


def environment(base: Mapping[str, str], mode: str) -> dict[str, str]:
    """``base`` for one mode."""
    return {**without_profilers(base), **mode_variables(mode)}


def removed(base: Mapping[str, str], mode: str) -> dict[str, str]:
    """Variables that are switched on in ``base`` and not for the mode: name -> why."""
    others = {
        name: f"it belongs to --mode {other}"
        for other, variables in _OF_MODE.items()
        for name in variables
        if name not in mode_variables(mode)
    }
    why = {**_FORBIDDEN, **others}
    return {name: why[name] for name in why if base.get(name, "") not in _OFF}


def by_hand(words: str) -> str:
    """The command line for the whole auto-profile; never with TTLANG_PERF_DUMP."""
    settings = " ".join(f"{k}={v}" for k, v in mode_variables("auto-profile").items())
    return f"{settings} {words}"
