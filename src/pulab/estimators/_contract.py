"""The constructor, the tags and the shared docstrings of all PU classifiers."""

from inspect import Parameter, Signature, get_annotations
from typing import Any, ClassVar, dataclass_transform

from sklearn.base import BaseEstimator, ClassifierMixin

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


@dataclass_transform(kw_only_default=True)
class PUClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn is untyped
    """Base of all classifiers.

    A class lists its parameters with their defaults, as a dataclass does: ``beta: float = 0.0``. It gets a constructor
    that takes these and the inherited ones, by name, and only assigns them. ``{prior}`` and the like in its docstring
    are replaced by the shared text in ``_docs``.
    """

    _docs: ClassVar[dict[str, str]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "__init__" not in vars(cls):
            cls.__init__ = _constructor(cls)  # type: ignore[method-assign]
        if cls.__doc__:  # None under python -OO
            for name, text in cls._docs.items():
                cls.__doc__ = cls.__doc__.replace(f"    {{{name}}}\n", text)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        # scikit-learn scores a fit to plain labels. With a prior of one half a PU learner rightly gives other labels.
        tags.classifier_tags.poor_score = True
        tags.input_tags.sparse = True
        return tags


def _constructor(cls: type[PUClassifier]) -> Any:
    """A constructor for the annotated attributes of a class and its bases. scikit-learn reads its signature."""
    bases = [base for base in cls.__mro__ if issubclass(base, PUClassifier)]
    names = dict.fromkeys(name for base in bases for name in get_annotations(base) if not name.startswith("_"))
    defaults = {name: getattr(cls, name) for name in names}

    def __init__(self: PUClassifier, **parameters: Any) -> None:
        unknown = parameters.keys() - defaults.keys()
        if unknown:
            raise TypeError(f"{cls.__name__} has no parameter {min(unknown)!r}. It has: {', '.join(defaults)}.")
        for name, default in defaults.items():
            setattr(self, name, parameters.get(name, default))

    keywords = [Parameter(name, Parameter.KEYWORD_ONLY, default=value) for name, value in defaults.items()]
    signature = Signature([Parameter("self", Parameter.POSITIONAL_OR_KEYWORD), *keywords])
    vars(__init__)["__signature__"] = signature
    return __init__
