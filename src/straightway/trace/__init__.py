"""What a run measured, as data: schema, join to ops and nodes, categories, work, file formats."""
