"""Reports: one plain-data view of a run, and the renderers that show it."""
