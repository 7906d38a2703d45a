"""From a table with some known positives to a model and a ranked list of candidates."""

from pulab.tables._crossfit import AUTO
from pulab.tables._fit import USABLE, estimate_table_prior, fit_table
from pulab.tables._frame import batches, name_of, read_table
from pulab.tables._model import TableModel
from pulab.tables._ray import score_on_ray
from pulab.tables._sources import is_changed_by, is_inside
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
    "is_changed_by",
    "is_inside",
    "name_of",
    "read_table",
    "score_on_ray",
    "table_writer",
]
