"""Reads a graph of autograd: which of its nodes were made when, and which tensors it ends in."""

import sys
from typing import Any, Iterable, List, NamedTuple, Optional

LARGEST_GRAPH = 1000000  # nodes; a second or two


class Graph(NamedTuple):
    """What feeds a backward: all nodes, and the tensors whose gradients it accumulates."""

    nodes: List[Any]
    leaves: List[Any]
    whole: bool

    def made_before(self, number: int) -> List[Any]:
        """Nodes of forwards that ran before autograd's count stood at `number`."""
        return [node for node in self.nodes if node._sequence_nr() < number]


def read_graph(tensors: Iterable[Any]) -> Graph:
    """Walk from the outputs to the leaves; the graph must still be there."""
    roots = [getattr(each, "node", None) or each.grad_fn for each in tensors]  # node: of an edge
    waiting = [node for node in roots if node is not None]
    seen = set(waiting)  # a node's Python object must live, or the next one has its identity
    nodes, leaves = [], []
    while waiting and len(seen) < LARGEST_GRAPH:
        node = waiting.pop()
        if type(node).__name__ == "AccumulateGrad":
            leaves.append(node.variable)
        else:
            nodes.append(node)
        for following, _ in node.next_functions:
            if following is not None and following not in seen:
                seen.add(following)
                waiting.append(following)
    return Graph(nodes, leaves, not waiting)


def sequence_number() -> Optional[int]:
    """The number that this thread's next node will have; None before torch 2.1."""
    torch = sys.modules["torch"]
    current = getattr(torch._C._autograd, "_get_sequence_nr", None)
    if current is not None:
        return int(current())
    with torch.enable_grad():
        node = torch.ones((), requires_grad=True).clone().grad_fn
    return int(node._sequence_nr()) + 1 if hasattr(node, "_sequence_nr") else None
