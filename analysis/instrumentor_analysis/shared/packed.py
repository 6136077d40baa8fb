"""What is packed: no more of it is taken out than of a file that is read whole.

A thousandth of what comes out may lie in the file, so its own size says nothing.
"""

from __future__ import annotations

import os
import zipfile
import zlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from instrumentor_analysis.shared.files import Unfit, opened

#: Of an archive, in bytes: at once, which bounds its list of names as well.
_PORTION_BYTES = 4 * 1024 * 1024
#: What numpy writes. Others are unpacked a portion of unknown size at a time.
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


def unpacked(data: bytes, limit: int) -> bytes:
    """What zlib packed.

    Raises:
        ValueError, zlib.error: it is no such thing, or comes to more bytes than the limit.
    """
    reader = zlib.decompressobj()
    document = reader.decompress(data, limit)
    if not reader.eof:
        raise ValueError(f"what is packed is cut short, or more than {limit >> 20:,} MiB")
    return document


def members(path: Path, limit: int) -> Iterator[tuple[str, bytes]]:
    """The files in a zip archive by name.

    Args:
        limit: how many bytes they may come to, and the archive itself.

    Raises:
        Unfit: they are more.
        OSError, ValueError: it cannot be read, or is no such archive.
    """
    try:
        with opened(path) as stream, zipfile.ZipFile(_Portions(stream, limit)) as archive:
            entries = archive.infolist()
            # No more comes out of an entry than it says.
            if sum(entry.file_size for entry in entries) > limit:
                raise Unfit(path, f"unpacks to more than {limit >> 20:,} MiB")
            for entry in entries:
                if entry.compress_type not in _METHODS:
                    raise ValueError("it is packed in another way than numpy packs")
                with archive.open(entry) as member:
                    # Not at once: one that says less than it has would be unpacked whole.
                    yield entry.filename, b"".join(iter(partial(member.read, 1 << 20), b""))
    # RuntimeError: it is encrypted, or of a later version of the format.
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:
        raise ValueError(str(error) or "it is cut short") from error


class _Portions:
    """A file of which nobody reads much at once."""

    def __init__(self, stream: BinaryIO, limit: int) -> None:
        self.stream = stream
        if os.fstat(stream.fileno()).st_size > limit:
            raise Unfit(stream.name, f"is larger than {limit >> 20:,} MiB")

    def read(self, size: int = -1) -> bytes:
        wanted = size if 0 <= size <= _PORTION_BYTES else _PORTION_BYTES + 1
        data = self.stream.read(wanted)
        if len(data) > _PORTION_BYTES:
            raise Unfit(self.stream.name, f"lists more than {_PORTION_BYTES >> 20} MiB of names")
        return data

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)
