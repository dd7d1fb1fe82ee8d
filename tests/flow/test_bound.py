"""The least partitions and layout changes of a program, held against all choices."""

import itertools
import random

import pytest

from straightway.executorch.program import (
    NO_HANDLE,
    Delegate,
    EdgeOp,
    ProgramMap,
    Shape,
    XnnNode,
    XnnValue,
)
from straightway.flow.bound import (
    fewest_layout_changes,
    fewest_partitions,
    layout_changes,
    left_outside,
)
from straightway.ir.source import Source

IMAGE, ROWS, NUMBERS = (1, 8, 4, 4), (1, 128), (1, 8, 1, 1)
LAST, ANY, FIRST = "aten.convolution.default", "aten.relu.default", "aten._softmax.default"


def op(target, *feeds, outside=False, result=False, shape=IMAGE, constant=False):
    return EdgeOp(
        name="",
        target=target,
        handle=0,
        partition=None if outside else 0,
        inputs=(Shape(sizes=IMAGE, dtype="float32"),),
        outputs=(Shape(sizes=shape, dtype="float32"),),
        feeds_on=feeds,
        is_result=result,
        is_constant=constant,
        source=Source(file="a/net.py", line=7),
    )


def counts(*ops):
    return fewest_partitions(ops), fewest_layout_changes(ops)


def test_convolutions_turn_what_comes_in_and_goes_out():
    assert counts(op(LAST), op(ANY, 0), op(LAST, 1, result=True)) == (1, 2)
    ops = op(LAST), op(LAST, 0, result=True)
    assert fewest_layout_changes(ops, given_last=True) == 0


def test_what_runs_outside_splits_and_turns():
    ops = [
        op(LAST),
        op(LAST, 0, outside=True),
        op(LAST, 1),
        op("aten.add.Tensor", 0, 2, result=True),
    ]
    # in, out of the first, into the second; and the sum, whose operands are there channels last
    assert counts(*ops) == (2, 4)
    assert counts(op(ANY, outside=True), op(ANY, 0, result=True)) == (1, 0)
    assert counts(op(ANY, outside=True)) == (0, 0)


def test_what_stands_beside_each_other_is_one_partition():
    ops = [op(ANY), op(ANY, 0, outside=True), op(ANY, 0, outside=True), op(ANY, 1), op(ANY, 2)]
    assert fewest_partitions(ops) == 2


def test_rows_have_one_order():
    ops = [
        op(LAST),
        op("aten.view_copy.default", 0, shape=ROWS),
        op("aten.linear.default", 1, shape=ROWS),
    ]
    assert fewest_layout_changes(ops) == 2


def test_a_row_of_numbers_has_no_order():
    pooled = op("aten.mean.dim", 0, shape=NUMBERS)
    ops = [op(LAST), pooled, op("aten.view_copy.default", 1, shape=ROWS)]
    assert fewest_layout_changes(ops) == 1


def test_only_what_moves_anything_is_counted():
    nodes = tuple(
        XnnNode(
            index=k,
            kind="XNNStaticTranspose",
            handle=NO_HANDLE,
            inputs=(k,),
            output=9,
            permutation=p,
        )
        for k, p in enumerate([(0, 2, 3, 1), (0, 3, 1, 2), (0, 2, 3, 1), (0, 1, 3, 2)])
    )
    sizes = [IMAGE, IMAGE, NUMBERS, IMAGE]
    values = tuple(XnnValue(id=k, sizes=one, dtype="fp32") for k, one in enumerate(sizes))
    delegate = Delegate(number=0, backend="XnnpackBackend", nodes=nodes, values=values)
    assert layout_changes(ProgramMap(instructions=(), delegates=(delegate,))) == 2


def brute_force(ops):
    """Over all orders of what carries either: one for each value and order that readers want."""
    free = [k for k, one in enumerate(ops) if one.target == ANY and one.partition is not None]
    fixed = {k: one.target == LAST and one.partition is not None for k, one in enumerate(ops)}
    best = None
    for sides in itertools.product([False, True], repeat=len(free)):
        side = fixed | dict(zip(free, sides, strict=True))
        turned = int(any(side[k] for k, one in enumerate(ops) if not one.feeds_on))
        for maker, one in enumerate(ops):
            wanted = {side[k] for k, reader in enumerate(ops) if maker in reader.feeds_on}
            turned += len((wanted | ({False} if one.is_result else set())) - {side[maker]})
        best = turned if best is None else min(best, turned)
    return best


@pytest.mark.parametrize("seed", range(40))
def test_no_choice_of_orders_turns_less(seed):
    draw = random.Random(seed)
    ops = []
    for place in range(8):
        feeds = draw.sample(range(place), min(place, draw.randint(0, 2)))
        target = draw.choice([LAST, ANY, ANY, FIRST])
        ops.append(op(target, *feeds, outside=draw.random() < 0.2, result=draw.random() < 0.3))
    assert fewest_layout_changes(ops) == brute_force(ops)


def test_what_is_left_outside_is_counted_by_line():
    ops = (
        op(ANY),
        op(LAST, 0, outside=True),
        op(LAST, 1, outside=True),
        op(ANY, outside=True, constant=True),
    )
    program = ProgramMap(instructions=(), delegates=(), ops=ops)
    assert left_outside(program) == {"convolution (net.py:7)": 2}
