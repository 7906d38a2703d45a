"""Methods that give labels to rows of U beside their published marks on MNIST.

python benchmarks/label_marks.py [--seeds 1] [--only cvir,lbe]      rows go to results/league/label-marks.jsonl

Two protocols. "mnist-low": digits 0 to 4 against 5 to 9, 15,000 labelled and 15,000 unlabeled rows, half of these
positive, as in the logs of CVIR's authors. "mnist": even against odd digits, a tenth of the positives labelled, all
training rows unlabeled, case-control, as in PU-Bench. What differs is in docs/methods.md. Accuracy is that of all test
rows. Epochs are chosen by each method's held-out risk.
"""

import argparse
from pathlib import Path

from pulab.bench import RunSpec, read_rows, run_all
from pulab.bench.store import append_row, rows_of
from pulab.datasets import PaperSampling, PlainSampling
from pulab.report.tables import markdown

ROWS = Path(__file__).parents[1] / "results" / "league" / "label-marks.jsonl"
LOW = PaperSampling(pool=48_000, n_labeled=15_000, n_unlabeled=15_000, prior=0.5, exact=True)
EVEN = PlainSampling(n_labeled=2_940, n_unlabeled=59_400)
SGD = {"optimizer": "sgd", "lr": 0.1, "weight_decay": 5e-4, "batch_size_u": 200}
NET = "mnist-mlp"
# Accuracies: of CVIR's authors' logs, mean of the last ten epochs, and of PU-Bench.
MARKS = {
    ("mnist-low", "cvir"): 96.0,
    ("mnist-low", "ted-n"): 91.9,
    ("mnist", "p3mix"): 95.2,
    ("mnist", "lbe"): 97.2,
}


def specs(seeds: int) -> list[RunSpec]:
    """All runs: as the authors set them, with fewer epochs, and with the library's settings beside."""
    runs = [
        ("mnist-low", LOW, "cvir", SGD | {"epochs": 40, "warm_start_epochs": 1}),
        ("mnist-low", LOW, "ted-n", SGD | {"epochs": 40, "warm_start_epochs": 10}),
        ("mnist", EVEN, "p3mix", {"batch_size_u": 256, "batch_size_p": 256, "epochs": 17, "e_start": 7}),
        ("mnist", EVEN, "lbe", {"epochs": 10, "lr": 5e-4}),
        ("mnist", EVEN, "holistic", {"epochs": 10, "strong_augment": None}),
        ("mnist", EVEN, "nnpu", {"epochs": 10}),
        ("mnist-low", LOW, "ted-n", {"epochs": 20}),
        ("mnist", EVEN, "cvir", {"epochs": 10}),
    ]
    return [
        RunSpec(dataset, sampling, method, seed, net=NET, params=params)
        for seed in range(seeds)
        for dataset, sampling, method, params in runs
    ]


def table() -> str:
    """Our accuracies beside the published ones."""
    rows = {row["spec"]: row for row in read_rows([ROWS])}
    lines = []
    for spec in specs(1):
        if row := rows.get(spec.digest):
            mark = MARKS.get((spec.dataset, spec.method))
            told = ", ".join(f"{name} {value}" for name, value in spec.params.items())
            ours = 100 - row["test_error"]
            beside = ["–", "–"] if mark is None else [f"{mark:.1f}", f"{ours - mark:+.1f}"]
            lines.append([f"`{spec.method}`", spec.dataset, told, f"{ours:.1f}", *beside])
    return markdown(["method", "data", "settings", "accuracy, %", "published", "difference"], lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--only", default="")
    asked = parser.parse_args()
    only = [key for key in asked.only.split(",") if key]
    wanted = [spec for spec in specs(asked.seeds) if not only or spec.method in only]
    ROWS.parent.mkdir(parents=True, exist_ok=True)
    done = {row["spec"] for row in rows_of(wanted, ROWS.parent)}
    for row in run_all([spec for spec in wanted if spec.digest not in done], device="cpu", jobs=1):
        append_row(ROWS, row)
        print(f"{row['dataset']} {row['method']} {row['seed']}: accuracy {100 - row['test_error']:.1f}", flush=True)


if __name__ == "__main__":
    main()
