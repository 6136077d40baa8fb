"""Names in quotes, as git writes them in patches and lists of folders, and reads them there."""

from __future__ import annotations

import re

#: What git never writes as it is in a name: it would begin another line, or another column.
CONTROL = re.compile(rb"[\x00-\x1f\x7f]")
_ESCAPE = re.compile(rb"\\([0-7]{3}|.)", re.DOTALL)
_MEANT = dict(zip(b"abtnvfr", range(7, 14), strict=True))


def quoted(name: bytes) -> bytes:
    """A name in quotes, its control characters as octal numbers."""
    escaped = name.replace(b"\\", b"\\\\").replace(b'"', b'\\"')
    return b'"%b"' % CONTROL.sub(lambda found: b"\\%03o" % ord(found[0]), escaped)


def unquoted(line: bytes) -> bytes:
    """The name that a line gives, in quotes or without."""
    if len(line) < 2 or not line.startswith(b'"') or not line.endswith(b'"'):
        return line
    return _ESCAPE.sub(_meant, line[1:-1])


def _meant(escape: re.Match[bytes]) -> bytes:
    said = escape[1]
    if said.isdigit() and len(said) > 1:
        return bytes([int(said, 8) & 0xFF])
    return bytes([_MEANT.get(said[0], said[0])])
