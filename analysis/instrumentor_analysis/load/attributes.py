"""What the ATTRIBUTES cell of an op says: a text of nested C++ values, written for people.

Nothing here raises on what it finds; a value that is not there, or not of its kind, is None.
"""

from __future__ import annotations

import re

from instrumentor_analysis.load.cells import dimension

PROGRAM_CONFIG = "program_config"
#: Ops whose ATTRIBUTES are read by their name; of all others only a program config is.
ATTRIBUTED = ("Matmul", "OptimizedConvNew", "Conv2d", "HaloDeviceOperation")


def attribute(attributes: str, name: str) -> str | None:
    """Value of one attribute, quoted or bare."""
    key = rf"['\"]{re.escape(name)}['\"]\s*:\s*"
    quoted = re.search(key + r"['\"]([^'\"]+)['\"]", attributes)
    found = quoted or re.search(key + r"([^;,\}\s]+)", attributes)
    return found.group(1) if found else None


def integer(attributes: str, name: str) -> int | None:
    """One attribute as a whole number; None where it is absent or no such number."""
    value = attribute(attributes, name)
    try:
        return None if value is None else int(value)
    except ValueError:
        return None


def flag(attributes: str, name: str, default: bool) -> bool:
    """One attribute as a truth value; the default where it is absent."""
    value = attribute(attributes, name)
    return default if value is None else value.lower() == "true"


def after(attributes: str, key: str) -> str | None:
    """Text between the first mention of a key and the next one; None without a mention."""
    _, found, rest = attributes.partition(key)
    return rest.split(key, 1)[0] if found else None


def program_config(attributes: str) -> dict[str, int | None]:
    """Block sizes of a matmul's program config, None where it lacks one; empty without a config."""
    if PROGRAM_CONFIG not in attributes:
        return {}
    keys = ("in0_block_w", "out_subblock_h", "out_subblock_w")
    hits = {key: re.search(key + r"=(\d+)", attributes) for key in keys}
    return {key: int(hit.group(1)) if hit else None for key, hit in hits.items()}


def conv_window(attributes: str) -> tuple[int, int] | None:
    """Kernel height and width: the first ``window_hw`` of the cell, ``=(3;3)`` in the attribute."""
    _, found, rest = attributes.partition("window_hw")
    parts = rest.split("; ", 1)[0][2:-1].split(";") if found else []
    sizes = [dimension(part) for part in parts[:2]]
    if len(sizes) < 2 or sizes[0] is None or sizes[1] is None:
        return None
    return sizes[0], sizes[1]


def conv_config(attributes: str) -> str:
    """A convolution's config as tt-perf-report shows it, ``[ABH=1|2 ADB SR]``; x where unknown."""

    def tiles(key: str) -> str:
        try:
            return str(int((after(attributes, key) or "")[1:].split(";")[0]))
        except ValueError:
            return "x"

    def on(key: str) -> bool:
        # A flag that the cell does not mention is shown as set: so does tt-perf-report.
        value = after(attributes, f"{key}': '")
        return value is None or value.split("'", 1)[0] == "true"

    height, block = tiles("per_core_out_matrix_height_ntile"), tiles("act_block_h_ntiles")
    text = f"[ABH={height}|{block}"
    text += " ADB" if on("enable_act_double_buffer") else ""
    text += " SR" if on("enable_split_reader") else ""
    return text + "]"


def halo_config(attributes: str) -> str:
    """Window, stride, padding, dilation and layout of a halo as tt-perf-report shows them."""

    def part(key: str, count: int) -> str:
        value = after(attributes, key)
        return "x" if value is None else ",".join(value.split(";")[:count])

    scoped = (after(attributes, "memory_layout=") or "").split(";")[0].split("::")
    layout = scoped[1] if len(scoped) > 1 else "x"
    return (
        f"w={part('window_hw=', 2)} s={part('stride_hw=', 2)} p={part('padding=', 4)} "
        f"d={part('dilation_hw=', 2)} | {layout}"
    )
