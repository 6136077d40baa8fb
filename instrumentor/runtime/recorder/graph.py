"""Reads a graph of autograd: which of its nodes were made when, and which tensors it ends in."""

import sys
from typing import Any, Iterable, List, NamedTuple, Optional

LARGEST_GRAPH = 1000000  # nodes; a second or two


class Graph(NamedTuple):
    """What feeds a backward: its nodes and the tensors it accumulates into, nearest first."""

    nodes: List[Any]
    leaves: List[Any]
    whole: bool


def read_graph(tensors: Iterable[Any]) -> Graph:
    """Walk from the outputs to the leaves, nearest first.

    A backward frees the saved tensors of a graph, not its edges: it can be read as long as an
    output lives.
    """
    roots = [getattr(each, "node", None) or each.grad_fn for each in tensors]  # node: of an edge
    found = [node for node in roots if node is not None]
    seen = set(found)  # a node's Python object must live, or the next one has its identity
    for node in found:  # grows
        for following, _ in node.next_functions:
            if following is not None and following not in seen and len(seen) < LARGEST_GRAPH:
                seen.add(following)
                found.append(following)
    # Told by their type: a Function of the script's own may keep a `variable`, too.
    ends = [type(node).__name__ == "AccumulateGrad" for node in found]
    nodes = [node for node, end in zip(found, ends) if not end]  # noqa: B905 - 3.8
    leaves = [node.variable for node, end in zip(found, ends) if end]  # noqa: B905 - 3.8
    return Graph(nodes, leaves, len(seen) < LARGEST_GRAPH)


def sequence_number() -> Optional[int]:
    """The number that this thread's next node will have; None before torch 2.1."""
    torch = sys.modules["torch"]
    current = getattr(torch._C._autograd, "_get_sequence_nr", None)
    if current is not None:
        return int(current())
    with torch.enable_grad():
        node = torch.ones((), requires_grad=True).clone().grad_fn
    return int(node._sequence_nr()) + 1 if hasattr(node, "_sequence_nr") else None
