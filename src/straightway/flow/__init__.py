"""The verbs: what the commands and the public functions do."""
