"""Faults of ours, injected: what verification must find."""

from dataclasses import replace

import numpy as np

from straightway.flow import translate, verify
from straightway.run import litert
from straightway.run.process import Call


def spoil_constant(monkeypatch, size, spoil):
    """Let `spoil` change each constant of this many elements when a model is lowered."""
    lower = translate.lower_graph

    def lowered(source, **options):
        found = lower(source, **options)
        for value in {v for node in found.graph.nodes for v in node.operands()}:
            if value.const is not None and value.const.size == size:
                value.const = np.ascontiguousarray(spoil(value.const.copy()))
        return found

    monkeypatch.setattr(translate, "lower_graph", lowered)


def one_channel_off(weights):
    """Change the weights of output channel 4."""
    weights[4] += 0.05
    return weights


def write_garbage(monkeypatch):
    """Write a file that is no flatbuffer."""
    write = translate.write

    def written(graph, **options):
        found = write(graph, **options)
        return replace(found, tables=bytes(len(found.tables)))

    monkeypatch.setattr(translate, "write", written)


def abort_the_engine(monkeypatch):
    """Let the child process die of the request to run the written file."""

    def run(path, inputs, **options):
        call = litert.run(path, inputs, **options)
        return Call(verb="abort", subject=call.subject, decode=call.decode)

    class Litert:
        pass

    Litert.run = staticmethod(run)
    monkeypatch.setattr(verify, "litert", Litert)
