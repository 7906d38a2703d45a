"""MNIST, even against odd: the risk methods beside a published mark. PULAB_DATA=… python benchmarks/marks_risk.py

As in PU-Bench, 2,950 digits are labelled (a tenth of the positives), case-control, but U has 20,000 rows instead of
59,400. Every method has 30 epochs, its own default weights, and keeps the epoch with the lowest risk of held-out P and
U. Dist-PU and PULDA are run with and without their second training. A run that has a row is not repeated.
"""

from pathlib import Path

import torch

from pulab.bench import RunSpec, append_row, rows_of, shortened
from pulab.bench.runner import run
from pulab.datasets import PlainSampling

ROWS = Path(__file__).parents[1] / "results" / "league" / "risk.jsonl"
SHARED = {"batch_size_u": 128, "lr_schedule": "cosine"}
ONE, BOTH = {"epochs": 30}, {"epochs": 15, "mixup_epochs": 15}
FIRST = ONE | {"mixup_epochs": 0}
RUNS = [
    ("pn", ONE),
    ("nnpu", ONE),
    ("pusb", ONE),
    ("imbalanced-nnpu", ONE),
    ("pu-auc", ONE),
    ("dist-pu", BOTH),
    ("pulda", BOTH),
    ("pulda", FIRST),
    ("dist-pu", FIRST),
]
PUBLISHED = {"dist-pu": 95.7, "nnpu": 94.9, "pn": 96.5}  # PU-Bench: accuracy in %, all training rows in U


def specs() -> list[RunSpec]:
    """One seed of each."""
    sampling = PlainSampling(n_labeled=2950, n_unlabeled=20_000)
    net = "mnist-cnn-no-dropout"
    return [RunSpec("mnist", sampling, method, seed=0, net=net, params=SHARED | own) for method, own in RUNS]


if __name__ == "__main__":
    torch.set_num_threads(1)
    done = {row["spec"] for row in rows_of(specs(), ROWS.parent)}
    for spec in specs():
        if spec.digest not in done:
            row = run(spec, "cpu")
            append_row(ROWS, shortened(row, drawn=False))
            print(f"{spec.method}: error {row['test_error']:.2f} %, {row['seconds']:.0f} s", flush=True)
