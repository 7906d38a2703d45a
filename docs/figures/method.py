"""Draw docs/figures/method.svg: how the joint method works. Run: python docs/figures/method.py"""

from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

INK, SOFT, WARM, COOL, GROUND = "#222222", "#777777", "#D55E00", "#0072B2", "#ffffff"


def box(axes: Axes, x: float, y: float, width: float, height: float, colour: str) -> None:
    style = "round,pad=0.02,rounding_size=0.08"
    axes.add_patch(FancyBboxPatch((x, y), width, height, boxstyle=style, fc="none", ec=colour, lw=1.6))


def arrow(
    axes: Axes, start: tuple[float, float], end: tuple[float, float], colour: str = INK, bend: float = 0.0
) -> None:
    style = f"arc3,rad={bend}"
    axes.add_patch(
        FancyArrowPatch(start, end, arrowstyle="-|>", mutation_scale=14, lw=1.5, color=colour, connectionstyle=style)
    )


def labels(axes: Axes, x: float, y: float, values: list[float]) -> None:
    """A row of pseudo-labels as bars between 0 and 1."""
    for i, value in enumerate(values):
        left = x + 0.27 * i
        axes.bar(left, 0.62, 0.18, bottom=y, color="#eeeeee", align="edge")
        axes.bar(left, 0.62 * value, 0.18, bottom=y, color=WARM, align="edge")


def main() -> None:
    figure = Figure(figsize=(10, 4.75), layout="constrained", facecolor=GROUND)
    axes = figure.subplots()
    axes.set(xlim=(0, 10), ylim=(-0.45, 4.3), aspect="equal")
    axes.axis("off")
    say = axes.text

    box(axes, 0.15, 3.0, 2.5, 1.15, COOL)
    say(1.4, 3.83, "P: labelled positives", ha="center", color=COOL, weight="bold")
    say(1.4, 3.35, "+   +   +   +", ha="center", color=COOL, size=15)

    box(axes, 0.15, 0.55, 2.5, 1.95, WARM)
    say(1.4, 2.2, "U: unlabeled", ha="center", color=WARM, weight="bold")
    say(1.4, 1.72, "+   –   –   +   –   +", ha="center", color="#bbbbbb", size=13)
    say(1.4, 1.42, "(nobody knows which)", ha="center", color=SOFT, size=8.5)
    labels(axes, 0.62, 0.68, [0.45] * 6)

    box(axes, 4.0, 1.75, 2.0, 1.3, INK)
    say(5.0, 2.55, "network", ha="center", weight="bold", color=INK)
    say(5.0, 2.1, "σ(x), the probability\nof being positive", ha="center", va="center", color=SOFT, size=9)

    box(axes, 7.35, 0.55, 2.5, 1.95, WARM)
    say(8.6, 2.2, "predictions of U", ha="center", color=WARM, weight="bold")
    say(8.6, 1.72, "kept for the last r epochs", ha="center", color=SOFT, size=9)
    labels(axes, 7.82, 0.68, [0.97, 0.04, 0.12, 0.9, 0.02, 0.83])

    arrow(axes, (2.75, 3.45), (3.95, 2.75), COOL)
    say(3.45, 3.32, "weight λ, falling", color=COOL, size=9.5)
    arrow(axes, (2.75, 1.75), (3.95, 2.2), WARM)
    say(2.8, 1.38, "KL to the labels", color=WARM, size=9.5)
    arrow(axes, (6.05, 2.2), (7.3, 1.75), WARM)
    arrow(axes, (8.6, 0.5), (1.4, 0.5), WARM, bend=-0.09)
    caption = "from epoch e_start on: each label becomes the mean of its row's last r predictions"
    say(5.0, -0.4, caption, ha="center", size=9.5, color=INK)

    say(6.2, 3.75, "begin: every label is the prior π", color=INK, size=10)
    say(6.2, 3.42, "α  keeps the predicted share at π", color=INK, size=10)
    say(6.2, 3.09, "β  pushes predictions to 0 or 1", color=INK, size=10)
    figure.savefig(Path(__file__).with_suffix(".svg"), metadata={"Date": None})


if __name__ == "__main__":
    main()
