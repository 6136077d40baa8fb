"""From bytes to a text that LibCST reads, and from LibCST's text back to the original's bytes.

LibCST 1.9 loses form feeds, some lone carriage returns and leading continuation lines. It is
therefore asked only for the order of lines; the bytes of original lines come from the original.
"""

from __future__ import annotations

import io
import re
import tokenize
from codecs import BOM_UTF8

from instrumentor.errors import ProofFailed
from instrumentor.marks import Line, classify, switch_off

_NEWLINE = re.compile(r"\r\n?")
# Python's tokenizer takes a form feed in the indentation as the start of the line.
_FORM_FEED = re.compile(r"^[ \t\f]*\f", re.MULTILINE)


def readable(source: bytes) -> tuple[str, str]:
    """The source as text, all of its newlines ``\\n``, the last line with one; its encoding.

    Raises:
        ProofFailed: the bytes are not what the file's coding line says.
    """
    try:
        encoding = _encoding(source)
        text = source.decode(encoding)
    except (SyntaxError, UnicodeDecodeError, LookupError) as error:
        raise ProofFailed(f"the file cannot be decoded: {error}") from error
    text = _NEWLINE.sub("\n", text)
    if text and not text.endswith("\n"):
        text += "\n"
    return text, encoding.removesuffix("-sig")


def without_form_feeds(text: str) -> str:
    """The text with the indentation that Python's tokenizer sees."""
    return _FORM_FEED.sub("", text) if "\f" in text else text


def check_encoding(result: bytes, encoding: str) -> None:
    """Check that the result is read in the original's encoding.

    Any comment in the first two lines can be a declaration: one with ``coding:`` in a statement
    that became a comment there, say.

    Raises:
        ProofFailed: it is not.
    """
    try:
        found = _encoding(result)
    except SyntaxError as error:
        found = str(error)
    if found.removesuffix("-sig") != encoding:
        raise ProofFailed(f"a comment in the first two lines would declare an encoding: {found}")


def with_original_bytes(source: bytes, readable_text: str, rewritten: str, encoding: str) -> bytes:
    """Put the bytes of the original's lines in place of those that LibCST wrote.

    Raises:
        ProofFailed: the lines of ``rewritten`` that are not ours are not those of the original.
    """
    bom = BOM_UTF8 if source.startswith(BOM_UTF8) else b""
    originals = source[len(bom) :].splitlines(keepends=True)
    expected = readable_text.encode(encoding).splitlines()
    newline = _newline(source)
    lines: list[bytes] = []
    used = 0
    for kind, line in classify(rewritten.encode(encoding).splitlines()):
        if kind is Line.OURS:
            lines.append(line + newline)
            continue
        if used >= len(originals) or (
            kind is Line.ORIGINAL and expected[used].strip() != line.strip()
        ):
            raise ProofFailed(f"proof 'reversible' failed at line {used + 1}: it would be changed")
        original = originals[used]
        used += 1
        lines.append(switch_off(original) if kind is Line.OFF else original)
    if used != len(originals):
        raise ProofFailed(f"proof 'reversible' failed at line {used + 1}: it would be lost")
    return bom + _join(lines, newline, ends_open=not source.endswith((b"\n", b"\r")))


def _encoding(source: bytes) -> str:
    # The tokenizer, unlike the parser, knows no lone CR.
    start = b"\n".join(source.splitlines()[:2])
    return tokenize.detect_encoding(io.BytesIO(start).readline)[0]


def _join(lines: list[bytes], newline: bytes, *, ends_open: bool) -> bytes:
    if ends_open and lines:
        lines[:-1] = [
            line if line.endswith((b"\n", b"\r")) else line + newline for line in lines[:-1]
        ]
        lines[-1] = lines[-1].rstrip(b"\r\n")
    return b"".join(lines)


def _newline(source: bytes) -> bytes:
    """The newline for lines of ours: the file's first one.

    A lone CR only when there is no other: before an empty line that ends in LF it would make one
    CRLF of the two.
    """
    found = re.search(rb"\r\n?|\n", source)
    if found is None:
        return b"\n"
    if found.group() == b"\r" and b"\n" in source:
        return b"\n"
    return found.group()
