"""A table with some known positives in; a model, and candidates ranked by how likely they are positive, out."""

from pulab.tables._fit import USABLE, estimate_table_prior, fit_table
from pulab.tables._frame import read_table
from pulab.tables._model import TableModel
from pulab.tables._work import AUTO
from pulab.tables._write import check_target, table_writer

__all__ = [
    "AUTO",
    "USABLE",
    "TableModel",
    "check_target",
    "estimate_table_prior",
    "fit_table",
    "read_table",
    "table_writer",
]
