"""``python -m pulab`` is the command ``pulab``."""

from pulab.cli import main

main()
