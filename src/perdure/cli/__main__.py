"""``python -m perdure.cli``: the command, where its script is not on the path."""

from perdure.cli import main

main()
