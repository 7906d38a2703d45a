"""Pages that stand alone: no script, no font and no picture from anywhere else."""

from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from pulab.report import figures
from pulab.report.tables import cells


def demo_page(rows: Sequence[dict[str, Any]]) -> str:
    """The demo's page: the table, how training went, how the pseudo-labels moved."""
    first_joint = next((row for row in rows if row["method"] == "joint"), None)
    history = first_joint["history"] if first_joint else []
    last = len(history)
    shown = sorted({max(1, round(last * share)) for share in (0, 0.2, 0.4, 0.6, 0.8, 1)}) if history else []
    return _render(
        "demo.html.j2",
        table=cells(rows),
        methods=list(dict.fromkeys(row["method"] for row in rows)),
        sampling=rows[0]["sampling"],
        loss_curves=figures.loss_curves(rows),
        heatmap=figures.label_heatmap(history) if history else "",
        histograms=figures.label_histograms(history, shown) if history else "",
        best_epoch=first_joint["best_epoch"] if first_joint else None,
    )


def _render(template: str, **values: Any) -> str:
    from jinja2 import Environment

    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    source = files("pulab.report").joinpath(template).read_text(encoding="utf-8")
    return environment.from_string(source).render(**values)
