"""The tags and the shared docstrings of all PU classifiers."""

from typing import Any, ClassVar

from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score

from pulab._parameters import DeclaredParameters
from pulab._validation import one_error, plain

PRIOR_DOC = """\
    prior : float in (0, 1), "estimate" or None
        Share of positives in the population: in U for case-control data, in all rows for a single sample. "estimate":
        use :func:`pulab.priors.estimate_prior`. None: 0.5, with a warning.
"""
SCENARIO_DOC = """\
    scenario : {"case-control", "single-sample"}
        Case-control: P and U were drawn independently; U is the population. Single-sample: one sample was drawn and
        some of its positives were labelled; P and U together are the population.
"""


class PUClassifier(ClassifierMixin, DeclaredParameters):  # type: ignore[misc]  # scikit-learn is untyped
    """Base of all classifiers. ``{prior}`` and the like in their docstrings are replaced by the texts in ``_docs``."""

    _docs: ClassVar[dict[str, str]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.__doc__:  # None under python -OO
            for name, text in cls._docs.items():
                cls.__doc__ = cls.__doc__.replace(f"    {{{name}}}\n", text)

    def _forget(self) -> None:
        """Remove all fitted attributes. A fit that fails must leave no part of itself or of an older fit."""
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, name)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of rows whose class ``y`` is predicted."""
        predicted = self.predict(X)
        with one_error("y or sample_weight cannot be used: "):
            return float(accuracy_score(plain(y), predicted, sample_weight=sample_weight))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        # scikit-learn scores a fit to plain labels. With a prior of one half a PU learner rightly gives other labels.
        tags.classifier_tags.poor_score = True
        tags.input_tags.sparse = True
        return tags
