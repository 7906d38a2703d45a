"""Run notebooks from top to bottom and keep what their cells show: python examples/notebooks/run.py table.ipynb …

It needs no Jupyter: the cells are run in one process, in order. Figures, prints and the value of a cell's last line
are stored as Jupyter stores them.
"""

import ast
import base64
import io
import json
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("agg")
import matplotlib.pyplot as plt


def run(path: Path) -> dict[str, Any]:
    """The notebook with the outputs of this run. An error in a cell ends it."""
    notebook: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    names: dict[str, Any] = {"__name__": "__main__"}
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for number, cell in enumerate(cells, 1):
        cell["execution_count"], cell["outputs"] = number, shown("".join(cell["source"]), names, number)
    return notebook


def shown(source: str, names: dict[str, Any], number: int) -> list[dict[str, Any]]:
    """What a cell shows."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    said = io.StringIO()
    with redirect_stdout(said):
        exec(compile(tree, f"cell {number}", "exec"), names)
        value = None if last is None else eval(compile(ast.Expression(last.value), f"cell {number}", "eval"), names)
    outputs: list[dict[str, Any]] = []
    if said.getvalue():
        outputs.append({"output_type": "stream", "name": "stdout", "text": said.getvalue().splitlines(keepends=True)})
    for figure in plt.get_fignums():
        picture = io.BytesIO()
        plt.figure(figure).savefig(picture, dpi=70, bbox_inches="tight", metadata={"Software": None})
        data = {"image/png": base64.b64encode(picture.getvalue()).decode(), "text/plain": ["<Figure>"]}
        outputs.append({"output_type": "display_data", "data": data, "metadata": {}})
    plt.close("all")
    if value is not None:
        data = {"text/plain": repr(value).splitlines(keepends=True)}
        if hasattr(value, "_repr_html_"):
            data["text/html"] = value._repr_html_().splitlines(keepends=True)
        outputs.append({"output_type": "execute_result", "data": data, "metadata": {}, "execution_count": number})
    return outputs


if __name__ == "__main__":
    for name in sys.argv[1:]:
        text = json.dumps(run(Path(name)), indent=1, ensure_ascii=False) + "\n"
        Path(name).write_text(text, encoding="utf-8")
        print(f"{name}: {len(text) / 1000:.0f} kB")
