"""`python -m straightway`."""

from straightway.cli.main import main

main()
