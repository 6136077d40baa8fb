"""The stand-in's page for a browser: a link to the newest trace, and a server that stays."""

# ruff: noqa: PTH105, PTH211
import os
import subprocess
import sys

from tracy.common import PROFILER_WASM_DIR, VERSION


def point_embed_at_trace(name):
    """The link is made whether the trace is there or not."""
    part = str(PROFILER_WASM_DIR / "embed.tracy.partial")
    os.symlink("traces/" + name, part)
    os.replace(part, str(PROFILER_WASM_DIR / "embed.tracy"))


def launch_server_subprocess(port=None, enabled=None):
    """0.75 to 0.80 leave a web server behind; later ones can be told not to."""
    if VERSION >= (0, 81) and (enabled is False or os.environ.get("TRACY_NO_WEB_SERVER") == "1"):
        return
    subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(120)", "standin-web-server"],
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
