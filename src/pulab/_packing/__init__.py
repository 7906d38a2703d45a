"""Values on disk, for models and for checkpoints. Reading runs no code from a file: pickle is never used."""

from pulab._packing._checks import check_jobs
from pulab._packing._content import Content
from pulab._packing._json import read_json

__all__ = ["Content", "check_jobs", "read_json"]
