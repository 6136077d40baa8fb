"""Files that are there whole or not at all: a reader never sees half of one."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def write_whole(target: Path, content: bytes, *, replace: bool = True) -> None:
    """Put a file in place at once; a failure leaves what was there, and names the target.

    Raises:
        FileExistsError: something is there, which must not be replaced.
        OSError: it cannot be written.
    """
    # Opened as any file is, not by tempfile: its 0600 would hide a report from colleagues.
    with becoming(target, replace=replace) as temporary, temporary.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def becoming(target: Path, *, replace: bool = True) -> Iterator[Path]:
    """A new file beside a target, put in its place at the end; errors name the target."""
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    try:
        yield temporary
        if replace:
            temporary.replace(target)
        else:
            os.link(temporary, target)  # unlike a rename, fails when the file appeared meanwhile
    except OSError as error:
        if error.filename not in (None, str(temporary), temporary):
            raise
        raise OSError(error.errno, error.strerror, str(target)) from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
