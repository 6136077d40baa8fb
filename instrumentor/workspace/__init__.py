"""The temporary copy in which an instrumented script runs, and the proofs around it.

``shadow`` makes the copy and removes it, ``plan_shadow`` tells beforehand what it will hold,
``Originals`` proves afterwards that the user's files are as they were, ``Linked`` tells what was
changed through a link, ``check_loaded`` that the copy is what ran, and ``sweep`` removes what
killed runs left in the cache. ``in_place`` is for
scripts that cannot run from a copy, ``restore`` undoes what is left of it.
"""

from instrumentor.workspace.copy_plan import ShadowPlan, plan_shadow
from instrumentor.workspace.in_place import in_place
from instrumentor.workspace.in_place.restoring import restore
from instrumentor.workspace.linked_data import Linked, UsersFiles
from instrumentor.workspace.loaded_proof import check_loaded
from instrumentor.workspace.originals_proof import Originals
from instrumentor.workspace.run_location import Workspace
from instrumentor.workspace.shadow import shadow
from instrumentor.workspace.slots import sweep

__all__ = [
    "Linked",
    "Originals",
    "ShadowPlan",
    "UsersFiles",
    "Workspace",
    "check_loaded",
    "in_place",
    "plan_shadow",
    "restore",
    "shadow",
    "sweep",
]
