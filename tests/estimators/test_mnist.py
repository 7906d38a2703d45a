"""The paper's first experiment on the real thing: its net, its sampling, its printed hyper-parameters."""

import pytest

from pulab import JointPUClassifier
from pulab.datasets import PaperSampling, load_mnist
from pulab.nets import MnistCNN


@pytest.mark.realdata("mnist")
def test_joint_on_real_mnist() -> None:
    """Even against odd from 500 labelled and 6,000 unlabeled digits. The paper reports 3.69 ± 0.69 %."""
    data = load_mnist()
    train, validation = PaperSampling(pool=40_000, n_labeled=500, n_unlabeled=6000, prior=0.49).draw(
        data.X_train, data.y_train, seed=4
    )
    clf = JointPUClassifier(
        prior=0.49, module=MnistCNN, lr=0.005, r=10, e_start=20, lambda_init=10, alpha=10, beta=2, epochs=60,
        batch_size_u=120, device="cpu", random_state=4,
    ).fit(train.X, train.s, X_val=validation.X, y_val=validation.s)  # fmt: skip
    assert 1 - clf.score(data.X_test, data.y_test) < 0.05
    recovered = clf.predict(train.X_unlabeled) == train.y_unlabeled
    by_labels = (clf.pseudo_labels_ > 0.5) == train.y_unlabeled
    assert recovered.mean() > 0.94
    assert by_labels.mean() == pytest.approx(recovered.mean(), abs=0.005)
