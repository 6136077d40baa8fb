"""An interpreter that has torch imported already: its scripts are run by the fork server."""

import json
import os
import socket
import sys
from pathlib import Path


def order(
    address: str, kind: str, argv: list[str], cwd: str, env: dict[str, str], streams: list[int]
) -> int:
    """Have the server do it with these standard streams; its exit code, 1 when it was killed."""
    wanted = {"kind": kind, "argv": argv, "cwd": cwd, "env": env}
    data = json.dumps(wanted).encode() + b"\n"
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(address)
        sent = socket.send_fds(server, [data], streams)
        server.sendall(data[sent:])
        return int(server.recv(16) or b"1")


def main(address: str) -> None:
    """Whatever is no script (the tool asks what is installed) is the real interpreter's."""
    if sys.argv[1:2] == ["-m"] or not sys.argv[1].startswith("-"):
        sys.exit(
            order(address, "script", sys.argv[1:], str(Path.cwd()), dict(os.environ), [0, 1, 2])
        )
    os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
