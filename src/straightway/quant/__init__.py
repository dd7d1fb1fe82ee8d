"""The 8-bit scheme: from a graph that rounds its floats to one that computes with integers."""
