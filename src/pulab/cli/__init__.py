"""The command line: thin, and nothing imports it."""

from pulab.cli.app import main

__all__ = ["main"]
