"""``python -m ncgnn`` is the command line."""

from ncgnn.cli import main

main()
