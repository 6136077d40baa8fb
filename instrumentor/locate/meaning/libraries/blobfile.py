"""blobfile: files that lie here or in a bucket, opened by one name."""

from __future__ import annotations

from instrumentor.locate.meaning.libraries.library import Library, rows
from instrumentor.locate.meaning.roles import Effect

LIBRARY = Library(
    packages=("blobfile",),
    effects=(
        (Effect.SAVES, rows("blobfile.", "BlobFile copy makedirs remove rmtree write_*")),
        (Effect.LOADS, rows("blobfile.", "read_*")),
        (Effect.NOTHING, ("blobfile.*",)),
    ),
    numbers=rows("blobfile.", "join basename dirname exists isdir get_url md5"),
    on_host=True,
)
