"""``python -m tracy`` of the stand-in: options, the second start through a shell, exit codes.

Failures shown here (STANDIN_TRACY_FAIL): no-tools, no-port, capture-died, capture-timeout,
protocol, pandas. The texts are those of the real package.
"""

# ruff: noqa: PTH103, PTH110, PTH112, PTH118, PTH120, PTH123
import io
import optparse
import os
import shutil
import signal
import subprocess
import sys
import time

from tracy import (
    FAIL,
    PROFILER_BIN_DIR,
    PROFILER_LOGS_DIR,
    TRACY_CSVEXPROT_TOOL,
    TRACY_FILE_NAME,
    VERSION,
    WAIT_S,
    client,
    log,
    report,
    run_report_setup,
)

NO_DATA = (
    "No profiling data could be captured. Please make sure you are on a Tracy-enabled build "
    "(default)."
)
# What pandas 3 says of process_device_log.py's `df.iloc[:, 8] = ...`: the value spans lines.
PANDAS = """Invalid value '0      -1
1      -1
2      -1
3      -1
       ..
2301   -1
2302   -1
2303   -1
Name:  trace id, Length: 2304, dtype: int64' for dtype 'str'"""


def make_parser():
    parser = optparse.OptionParser(usage="python3 -m tracy [-m module | scriptfile] [arg] ...")
    parser.allow_interspersed_args = False
    flag = {"action": "store_true", "default": False}
    parser.add_option("-m", dest="module", help="Profile a library module.", **flag)
    parser.add_option("-p", dest="partial", help="Only profile enabled zones", **flag)
    parser.add_option("-l", dest="lines", help="Profile every line of python code", **flag)
    parser.add_option("-r", dest="report", help="Generate ops report", **flag)
    parser.add_option("-v", dest="verbose", help="More info is printed to stdout", **flag)
    parser.add_option("--no-device", dest="device", action="store_false", default=True)
    parser.add_option("-o", "--output-folder", dest="out", help="Profiler artifacts folder")
    parser.add_option("-n", "--name-append", dest="name_append", help="Added to the report's name")
    parser.add_option("-t", "--port", dest="port", help="Internal port used by the script")
    parser.add_option("--process-logs-only", dest="logs_only", help="Only process the logs", **flag)
    parser.add_option("--sync-host-device", dest="sync", help="Sync host with all devices", **flag)
    parser.add_option("--check-exit-code", dest="check_exit_code", help="No report after", **flag)
    parser.add_option("--tracy-tools-folder", dest="tools", help="Tracy tools folder")
    parser.add_option("--dump-device-data-mid-run", dest="mid_run", help="Dump mid-run", **flag)
    if VERSION >= (0, 68):
        parser.add_option("--op-support-count", dest="support", type="int", help="Maximum of ops")
        parser.add_option("--enable-sum-profiling", dest="sums", help="Sum profiling", **flag)
        parser.add_option("--collect-noc-traces", dest="noc", help="Collect traces", **flag)
    if VERSION >= (0, 75):
        parser.add_option(
            "--profiler-capture-perf-counters", dest="counters", type="string", help="Groups"
        )
    if VERSION >= (0, 81):
        parser.add_option("--no-web-server", dest="web_server", action="store_false")
        parser.add_option("--no-capture-tool", dest="second", help="No capture tool", **flag)
    return parser


def main():
    parser = make_parser()
    if not sys.argv[1:]:
        parser.print_usage()
        sys.exit(2)
    original = list(sys.argv[1:])
    options, args = parser.parse_args()
    sys.argv[:] = args
    out = options.out or "generated/profiler"
    os.makedirs(out, exist_ok=True)
    os.environ["TT_METAL_PROFILER_DIR"] = out
    if options.sync:
        os.environ["TT_METAL_PROFILER_SYNC"] = "1"
    if options.mid_run:
        os.environ["TT_METAL_PROFILER_MID_RUN_DUMP"] = "1"
    if getattr(options, "support", None):
        os.environ["TT_METAL_PROFILER_PROGRAM_SUPPORT_COUNT"] = str(options.support)
    tools = find_tools(options)
    if options.logs_only:
        # 0.65 looks for the logs one folder too deep
        make_report(os.path.join(out, ".logs") if VERSION < (0, 68) else out, options, tools)
        return
    if not args:
        parser.print_usage()
    elif options.report and not getattr(options, "second", False):
        profile(original, options, out, tools)
    else:
        run_script(options, args)


def find_tools(options):
    if options.tools and not os.path.isdir(options.tools):
        log("ERROR", "tracy:main", f"Tracy tools folder {options.tools} does not exist")
        sys.exit(1)
    return options.tools or str(PROFILER_BIN_DIR)


def run_script(options, args):
    """The profiled process itself."""
    if os.environ.get("TT_METAL_DEVICE_PROFILER") == "1":
        client.start()
    if options.module:
        import runpy

        runpy.run_module(args[0], run_name="__main__")
        return
    sys.path.insert(0, os.path.dirname(args[0]))
    with io.open_code(args[0]) as stream:
        try:
            code = compile(stream.read(), args[0], "exec")
        except (ValueError, SyntaxError):
            subprocess.run(" ".join(args), shell=True, check=True)
            return
    exec(code, {"__file__": args[0], "__name__": "__main__", "__package__": None})


def profile(original, options, out, tools):
    """Start the capture program and the script, then make the report."""
    log("INFO", "tracy:main", "stand-in of Tracy {}.{}: no device, made-up times".format(*VERSION))
    if FAIL == "no-port":
        log("ERROR", "tracy:main", "No available port found")
        sys.exit(1)
    port = options.port or "8086"
    capture = run_report_setup(options.verbose, out, tools, port)
    if "-r" not in original and VERSION < (0, 81):  # combined, such as -pr
        raise ValueError("list.remove(x): x not in list")
    if VERSION >= (0, 81):
        original.insert(0, "--no-capture-tool")
    else:
        original.remove("-r")
    python = "python3" if VERSION < (0, 72) else sys.executable
    command = "{} -m tracy {}".format(python, " ".join(original))
    env = dict(os.environ, TRACY_PORT=port, TTNN_OP_PROFILER="1")
    env.pop("TT_METAL_DEVICE_PROFILER", None)
    if options.device:
        env["TT_METAL_DEVICE_PROFILER"] = "1"
    child = subprocess.Popen(command, shell=True, env=env, start_new_session=True)
    log("INFO", "tracy:main", "Test process started")

    def stopped(number, frame):
        os.killpg(os.getpgid(child.pid), signal.SIGTERM)
        capture.terminate()
        capture.communicate()
        sys.exit(3)

    signal.signal(signal.SIGINT, stopped)
    signal.signal(signal.SIGTERM, stopped)
    child.communicate()
    if options.check_exit_code and child.returncode != 0:
        capture.terminate()
        log("ERROR", "tracy:main", f"{command} exited with a non-zero return code")
        sys.exit(4)
    if FAIL == "capture-timeout":
        capture.terminate()
        print(
            f"subprocess.TimeoutExpired: Command '{capture.args}' timed out after {WAIT_S} seconds",
            file=sys.stderr,
        )
        sys.exit(1)
    try:
        capture.communicate(timeout=WAIT_S)
    except subprocess.TimeoutExpired:
        capture.terminate()
        capture.communicate()
        if VERSION >= (0, 81):
            log(
                "ERROR",
                "__main__:main",
                f"Tracy capture did not finish within {WAIT_S:g} seconds after the test exited. "
                "Run with -v to see capture output.",
            )
        else:
            log("ERROR", "__main__:main", NO_DATA)
        sys.exit(1)
    if VERSION >= (0, 81) and capture.returncode != 0:
        log(
            "ERROR",
            "__main__:main",
            f"Tracy capture tool (tracy-capture) exited with code {capture.returncode} before "
            "writing a trace. The profiling stream crashed the capture tool, so NO .tracy was "
            "produced. This is a capture-side failure -- the test itself may have passed. Re-run "
            "under a debugger/ASan build of tracy-capture to root-cause.",
        )
        sys.exit(70)
    if VERSION >= (0, 75):
        show_page(options)
    make_report(out, options, tools)


def show_page(options):
    """A copy of the trace for the browser; looked for where a run without -o has it."""
    from tracy import PROFILER_WASM_TRACES_DIR, serve_wasm

    name = time.strftime("launch_%Y_%m_%d_%H_%M_%S.tracy")
    source, target = PROFILER_LOGS_DIR / TRACY_FILE_NAME, PROFILER_WASM_TRACES_DIR / name
    log("INFO", "__main__:main", f"Copying {source} to {target}")
    try:
        shutil.copyfile(str(source), str(target))
    except OSError as error:
        log("WARNING", "__main__:main", f"Could not copy {source} to {target}: {error}")
    serve_wasm.point_embed_at_trace(name)
    serve_wasm.launch_server_subprocess(enabled=getattr(options, "web_server", None))


def make_report(out, options, tools):
    logs = os.path.join(out, ".logs")
    trace = os.path.join(logs, "tracy_profile_log_host.tracy")
    for _ in range(16):
        if os.path.exists(trace):
            break
        log(
            "WARNING",
            "tracy:generate_report",
            "tracy capture out not found, will try again in 1 second. Run in verbose (-v) mode to "
            "see tracy capture info",
        )
        time.sleep(min(1.0, WAIT_S / 16))
    else:
        log(
            "ERROR",
            "tracy:generate_report",
            f"tracy capture output file {trace} was not generated. Run in verbose (-v) mode to "
            "see tracy capture info",
        )
        sys.exit(1)
    export = os.path.join(tools, TRACY_CSVEXPROT_TOOL)
    for name, arguments in (
        ("tracy_ops_times.csv", "-u -t TT_ -x CompileProgram"),
        ("tracy_ops_data.csv", "-m -s ';'"),
    ):
        with open(os.path.join(logs, name), "w") as stream:
            subprocess.run(f"{export} {arguments} {trace}", shell=True, check=True, stdout=stream)
    if FAIL == "pandas":
        raise TypeError(PANDAS)
    path = report.write(out, options.name_append)
    log("INFO", "tracy:process_ops", f"OPs csv generated at: {path}" if path else "No device data")


if __name__ == "__main__":
    main()
