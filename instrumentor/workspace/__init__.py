"""The temporary copy in which an instrumented script runs, and the proofs around it.

In: instrumented bytes; out: a place where they can run, and proof that the originals are unchanged.

``shadow`` makes the copy and removes it, ``plan_shadow`` tells beforehand what it will hold,
``Originals`` proves afterwards that the user's files are as they were, ``Linked`` tells what was
changed through a link, ``check_loaded`` that the copy is what ran, and ``sweep`` removes what
killed runs left in the cache. ``in_place`` is for
scripts that cannot run from a copy, ``restore`` undoes what is left of it.

Nothing is imported here: :mod:`.recovery` is asked at every start.
"""
