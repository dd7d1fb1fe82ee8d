"""The exact answer where each node has two modes: one minimum cut.

Each node is on one of two sides. A term becomes one auxiliary node between its producer and its
consumers, so that it is paid once; a value with two labels has two such terms, one a direction.
This needs the literals of a term to hold on the same side, after turning some nodes around. Where
no turning achieves that, the cost is not submodular and no cut expresses it (Kolmogorov and Zabih,
"What energy functions can be minimized via graph cuts?", 2004).
"""

from collections import deque
from collections.abc import Mapping
from itertools import pairwise

from straightway.domains.terms import Literal, Part, Term


class FlowNetwork:
    """A directed network with exact integer capacities, and its minimum cut (Dinic's algorithm).

    Nodes 0 and 1 are source and sink. The integers are Python's: a solver that casts capacities to
    32 bit (scipy.sparse.csgraph.maximum_flow) answers wrongly, without an error, from 2**31 on.
    """

    def __init__(self) -> None:
        self.edges: dict[tuple[int, int], int] = {}
        self.size = 2

    def add_node(self) -> int:
        """Return a new node."""
        self.size += 1
        return self.size - 1

    def add_edge(self, tail: int, head: int, capacity: int) -> None:
        """Let `capacity` more flow from `tail` to `head`."""
        self.edges[tail, head] = self.edges.get((tail, head), 0) + capacity

    def minimum_cut(self) -> tuple[int, list[bool]]:
        """Return the capacity of a minimum cut and whether each node is on the sink's side.

        Of several minimum cuts, it is the one with the fewest nodes on the source's side.
        """
        heads, room, leaving = self._residual()
        flow = 0
        while True:
            distance = self._distances(heads, room, leaving)
            if distance[0] < 0:
                return flow, self._sink_side(heads, room, leaving)
            flow += _saturate(heads, room, leaving, distance)

    def _residual(self) -> tuple[list[int], list[int], list[list[int]]]:
        """Return each edge's head and room, and each node's edges; `edge ^ 1` leads back."""
        heads: list[int] = []
        room: list[int] = []
        leaving: list[list[int]] = [[] for _ in range(self.size)]
        for (tail, head), capacity in self.edges.items():
            if (head, tail) in self.edges and head < tail:
                continue
            leaving[tail].append(len(heads))
            leaving[head].append(len(heads) + 1)
            heads += (head, tail)
            room += (capacity, self.edges.get((head, tail), 0))
        return heads, room, leaving

    def _distances(self, heads: list[int], room: list[int], leaving: list[list[int]]) -> list[int]:
        """Return each node's distance to the sink along edges with room, -1 if there is no way."""
        distance = [-1] * self.size
        distance[1] = 0
        queue = deque([1])
        while queue:
            node = queue.popleft()
            step = distance[node] + 1
            for edge in leaving[node]:
                tail = heads[edge]
                if distance[tail] < 0 and room[edge ^ 1]:
                    distance[tail] = step
                    queue.append(tail)
        return distance

    def _sink_side(self, heads: list[int], room: list[int], leaving: list[list[int]]) -> list[bool]:
        """Return which nodes the source no longer reaches."""
        beyond = [True] * self.size
        beyond[0] = False
        stack = [0]
        while stack:
            for edge in leaving[stack.pop()]:
                if room[edge] and beyond[heads[edge]]:
                    beyond[heads[edge]] = False
                    stack.append(heads[edge])
        return beyond


def _saturate(
    heads: list[int], room: list[int], leaving: list[list[int]], distance: list[int]
) -> int:
    """Push flow along shortest ways until each has a full edge; return how much."""
    total = 0
    following = [0] * len(leaving)
    path: list[int] = []
    node = 0
    while True:
        if node == 1:
            pushed = min(room[edge] for edge in path)
            total += pushed
            for edge in path:
                room[edge] -= pushed
                room[edge ^ 1] += pushed
            full = next(place for place, edge in enumerate(path) if not room[edge])
            node = heads[path[full] ^ 1]
            del path[full:]
        edges = leaving[node]
        step = distance[node] - 1
        place = following[node]
        while place < len(edges) and not (
            room[edges[place]] and distance[heads[edges[place]]] == step
        ):
            place += 1
        following[node] = place
        if place < len(edges):
            path.append(edges[place])
            node = heads[edges[place]]
        elif path:
            node = heads[path.pop() ^ 1]
            following[node] += 1
        else:
            return total


def solve_by_cut(part: Part) -> tuple[dict[int, int], int] | None:
    """Return the best modes and their cost, or None where a cut does not express the part."""
    if any(bits.bit_count() > 2 for bits in part.alive.values()):
        return None
    on_one = _modes_on_side_one(part)
    if on_one is None:
        return None
    network = FlowNetwork()
    vertex = {node: network.add_node() for node in part.alive}
    for node, bits in part.alive.items():
        one = on_one[node].bit_length() - 1
        zero = (bits ^ on_one[node]).bit_length() - 1
        network.add_edge(0, vertex[node], part.prices[node][one])
        network.add_edge(vertex[node], 1, part.prices[node][zero])
    for term in part.terms:
        node, modes = term.literals()[0]
        _add_term(network, term, vertex, ascending=on_one[node] == modes)
    cost, sides = network.minimum_cut()
    choice = {
        node: (on_one[node] if sides[vertex[node]] else bits ^ on_one[node]).bit_length() - 1
        for node, bits in part.alive.items()
    }
    return choice, cost


def _add_term(
    network: FlowNetwork, term: Term, vertex: Mapping[int, int], *, ascending: bool
) -> None:
    """Add the edge that is cut where `term` is paid; its literals hold on side 1 if `ascending`."""
    never, surely = (0, 1) if ascending else (1, 0)

    def add_edge(tail: int, head: int) -> None:
        network.add_edge(*((tail, head) if ascending else (head, tail)), term.weight)

    if len(term.consumers) > 1:
        demand = network.add_node()
        for node, _ in term.consumers:
            add_edge(demand, vertex[node])
    else:
        demand = surely if term.always else vertex[term.consumers[0].node]
    add_edge(vertex[term.producer.node] if term.producer else never, demand)


def _modes_on_side_one(part: Part) -> dict[int, int] | None:
    """Return, as a bit set, the mode that side 1 means for each node, or None.

    The literals of a term must all hold on side 1 or all on side 0.
    """
    linked: dict[int, list[tuple[Literal, Literal]]] = {node: [] for node in part.alive}
    sides: dict[int, int] = {}
    for term in part.terms:
        for left, right in pairwise(term.literals()):
            linked[left.node].append((left, right))
            linked[right.node].append((right, left))
    for root, bits in part.alive.items():
        if root in sides:
            continue
        sides[root] = bits & -bits
        stack = [root]
        while stack:
            for here, there in linked[stack.pop()]:
                agreeing = there.modes
                if sides[here.node] != here.modes:
                    agreeing ^= part.alive[there.node]
                if there.node not in sides:
                    sides[there.node] = agreeing
                    stack.append(there.node)
                elif sides[there.node] != agreeing:
                    return None
    return sides
