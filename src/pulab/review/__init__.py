"""Review: a person answers about rows drawn at random by depth of the ranking, and the answers measure the model."""

from pulab.review.answers import FILE, Answers, from_sheet, open_log, read_answers, sheet
from pulab.review.design import Draw, draw
from pulab.review.result import lines, measured

__all__ = [
    "FILE",
    "Answers",
    "Draw",
    "draw",
    "from_sheet",
    "lines",
    "measured",
    "open_log",
    "read_answers",
    "sheet",
]
