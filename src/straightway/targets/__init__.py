"""What devices run, and how files for them are made: one module a family, numbers with their source."""
