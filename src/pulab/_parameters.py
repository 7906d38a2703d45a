"""Estimators that declare their parameters once, as a dataclass does."""

from dataclasses import Field, field
from inspect import Parameter, Signature, get_annotations
from typing import Any, ClassVar, dataclass_transform, get_origin

from sklearn.base import BaseEstimator


@dataclass_transform(kw_only_default=True, field_specifiers=(field,))
class DeclaredParameters(BaseEstimator):  # type: ignore[misc]  # scikit-learn is untyped
    """Base of classes that list their parameters with their defaults: ``beta: float = 0.0``.

    A class gets a constructor that takes these and the inherited ones, and only assigns them. They are passed by name.
    ``model: str = field(default="small", kw_only=False)`` may also be passed by position.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        inherited = next(vars(base)["__init__"] for base in cls.__mro__ if "__init__" in vars(base))
        if inherited is object.__init__ or hasattr(inherited, "__signature__"):  # nobody has written one
            cls.__init__ = _constructor(cls)  # type: ignore[method-assign]


def _constructor(cls: type[DeclaredParameters]) -> Any:
    """A constructor for the annotated attributes of a class and its bases. scikit-learn reads its signature."""
    bases = [base for base in cls.__mro__ if issubclass(base, DeclaredParameters)]
    annotations = {name: kind for base in reversed(bases) for name, kind in get_annotations(base).items()}
    names = dict.fromkeys(name for base in bases for name in get_annotations(base) if not name.startswith("_"))
    names = {name: None for name in names if get_origin(annotations[name]) is not ClassVar}
    missing = [name for name in names if not hasattr(cls, name)]
    if missing:
        raise TypeError(
            f"the parameter {missing[0]!r} of {cls.__name__} needs a default, as in `{missing[0]}: float = 0.0`."
        )
    declared = [(name, getattr(cls, name)) for name in names]
    positional = {name: value.default for name, value in declared if isinstance(value, Field)}
    defaults = positional | {name: value for name, value in declared if name not in positional}

    def __init__(self: DeclaredParameters, *args: Any, **parameters: Any) -> None:
        try:
            given = signature.bind(self, *args, **parameters).arguments
        except TypeError as error:
            raise TypeError(f"{cls.__name__}: {error}. Its parameters: {', '.join(defaults)}.") from None
        for name, default in defaults.items():
            setattr(self, name, given.get(name, default))

    places = [Parameter("self", Parameter.POSITIONAL_OR_KEYWORD)]
    for name, default in defaults.items():
        kind = Parameter.POSITIONAL_OR_KEYWORD if name in positional else Parameter.KEYWORD_ONLY
        places.append(Parameter(name, kind, default=default))
    signature = vars(__init__)["__signature__"] = Signature(places)
    __init__.__qualname__ = f"{cls.__qualname__}.__init__"
    return __init__
