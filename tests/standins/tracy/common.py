"""Names and folders of the stand-in, as tracy/common.py of the real package gives them."""

# ruff: noqa: PTH103
import os
from pathlib import Path

VERSION = tuple(int(part) for part in os.environ.get("STANDIN_TRACY_VERSION", "0.81").split("."))
TT_METAL_HOME = Path(os.environ.get("TT_METAL_HOME", os.getcwd()))  # noqa: PTH109
PROFILER_BIN_DIR = TT_METAL_HOME / "build" / "tools" / "profiler" / "bin"
PROFILER_ARTIFACTS_DIR = Path(
    os.environ.get("TT_METAL_PROFILER_DIR", str(TT_METAL_HOME / "generated" / "profiler"))
)
PROFILER_LOGS_DIR = PROFILER_ARTIFACTS_DIR / ".logs"
TRACY_FILE_NAME = "tracy_profile_log_host.tracy"
if VERSION >= (0, 75):
    # Importing the package already makes this folder, if need be where one stands.
    PROFILER_WASM_DIR = TT_METAL_HOME / "build/profiler/build_wasm"
    PROFILER_WASM_TRACES_DIR = PROFILER_WASM_DIR / "traces"
    os.makedirs(str(PROFILER_WASM_TRACES_DIR), exist_ok=True)
    TRACY_CAPTURE_TOOL, TRACY_CSVEXPROT_TOOL = "tracy-capture", "tracy-csvexport"
else:
    TRACY_CAPTURE_TOOL, TRACY_CSVEXPROT_TOOL = "capture-release", "csvexport-release"
