"""Which ops a delegate took, reconstructed from what its partitions read and write."""

from hypothesis import given, strategies as st

from straightway.run.partition import Placement, Wires, placement


def op(inputs, outputs):
    return Wires(inputs=tuple(inputs), outputs=tuple(outputs))


def test_an_assignment_without_result_is_inside_where_its_value_never_leaves():
    # 10 = var(); 11 = read(10); 12 = f(11, 0); assign(10, 12); 13 = g(12); 14 = outside(13)
    ops = [op([], [10]), op([10], [11]), op([11, 0], [12]), op([10, 12], []), op([12], [13]),
           op([13], [14])]  # fmt: skip
    assert placement(ops, [op([0], [13])]) == Placement(partitions=((0, 1, 2, 3, 4),), outside=(5,))


def test_an_assignment_stays_outside_where_its_value_does_leave():
    ops = [op([0], [10]), op([10], []), op([10], [11])]
    assert placement(ops, [op([0], [10, 11])]) == Placement(partitions=((0, 2),), outside=(1,))


def test_a_dead_chain_inside_is_found():
    ops = [op([0], [10]), op([10], [11]), op([11], [12]), op([10], [13])]
    assert placement(ops, [op([0], [13])]).partitions == ((0, 1, 2, 3),)


def test_no_delegate_means_all_outside():
    assert placement([op([0], [1])], []) == Placement(partitions=(), outside=(0,))


@st.composite
def graphs(draw):
    """A random graph in execution order, and a label for each op: outside, or its partition."""
    count = draw(st.integers(1, 14))
    labels = draw(st.lists(st.integers(-1, 2), min_size=count, max_size=count))
    labels.sort(
        key=lambda label: (label < 0, label)
    )  # partitions one after the other, then outside
    ops = [
        op(draw(st.lists(st.integers(0, index), min_size=1, max_size=3)), [index + 1])
        for index in range(count)
    ]
    return ops, labels


@given(graphs())
def test_every_op_with_a_used_result_is_found(graph):
    ops, labels = graph
    read = [(tensor, index) for index, one in enumerate(ops) for tensor in one.inputs]
    partitions = []
    numbers = sorted({label for label in labels if label >= 0})
    for number in numbers:
        inside = {index for index, label in enumerate(labels) if label == number}
        made = {tensor for index in inside for tensor in ops[index].outputs}
        inputs = {t for index in inside for t in ops[index].inputs} - made
        # A partition hands out what others read; what nobody reads is a result of the model.
        unread = {t for t in made if all(t != tensor for tensor, _ in read)}
        outputs = {t for t in made if any(t == x and i not in inside for x, i in read)} | unread
        partitions.append(op(sorted(inputs), sorted(outputs)))
    got = placement(ops, partitions)
    for number, members in zip(numbers, got.partitions, strict=True):
        assert members == tuple(i for i, label in enumerate(labels) if label == number)
    assert got.outside == tuple(i for i, label in enumerate(labels) if label < 0)
