"""Models in: each module turns one format into the graph."""
