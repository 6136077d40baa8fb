"""Files that are there whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from instrumentor_analysis.shared.files import write_whole


def test_a_file_that_must_not_be_replaced_is_left(tmp_path: Path) -> None:
    target = tmp_path / "page.html"
    write_whole(target, b"first", replace=False)
    with pytest.raises(FileExistsError) as caught:
        write_whole(target, b"second", replace=False)
    assert caught.value.filename == str(target)
    assert target.read_bytes() == b"first"
    write_whole(target, b"third")
    assert target.read_bytes() == b"third" and list(tmp_path.iterdir()) == [target]
