"""How large a table of numbers may be that a lowering makes for the file: it is refused before it is made."""

from straightway.errors import NotYet

# A transform of 4,096 points takes 128 MiB as a matrix; longer ones would be better off elsewhere.
MOST_ENTRIES = 2**25
# of whole numbers that become truth values
MOST_MASKED = 2**27


def refuse_large_table(subject: str, rows: int, columns: int, most: int = MOST_ENTRIES) -> None:
    """Raise NotYet where a table would take too much room."""
    if rows * columns > most:
        raise NotYet(
            f"{subject} is a table of at most {most:,} entries; it would have {rows:,} x {columns:,}",
            remedy="compute with fewer at a time, or outside of the model",
        )
