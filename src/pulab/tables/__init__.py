"""A table with some known positives in; a model, and candidates ranked by how likely they are positive, out."""

from pulab.tables._fit import USABLE, estimate_table_prior, fit_table
from pulab.tables._frame import batches, read_table
from pulab.tables._model import TableModel
from pulab.tables._work import AUTO
from pulab.tables._write import check_target, flat, table_writer

__all__ = [
    "AUTO",
    "USABLE",
    "TableModel",
    "batches",
    "check_target",
    "estimate_table_prior",
    "fit_table",
    "flat",
    "read_table",
    "table_writer",
]
