"""Networks that can learn more from some rows than from others."""

from typing import Any, Self

from pulab.estimators._base import BasePUClassifier


class WeightedNetwork(BasePUClassifier):
    """Base of network methods whose loss is made of means over batches of P and of U.

    The loop draws rows by their weight. So a plain mean in an objective estimates the weighted mean without bias, and
    an objective needs no line for weights. A method that looks at all rows at once, beside its batches, would have to
    weigh them there, and cannot use this class as it is.
    """

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        X_val: Any = None,
        y_val: Any = None,
        sample_weight_val: Any = None,
    ) -> Self:
        """Learn from positive and unlabeled rows.

        Parameters
        ----------
        X : array of shape (n, features) or (n, channels, height, width), data frame, or sparse matrix
        y : array of shape (n,)
            1 for a known positive, 0 for an unlabeled row. Other forms: booleans, {1, -1}, a value and NaN or None,
            any two classes (the one that sorts last is positive).
        sample_weight : array of shape (n,), optional
            How much is learned from each row. Every epoch draws as many rows as there are, each as often as its weight
            says, on average; a row of weight 0 is left out. Only ratios count, within P and within U. The prior says
            how much P weighs against U, so it is the share of positives *by weight*. "estimate" estimates it by rows.
        X_val, y_val, sample_weight_val : like X, y and sample_weight, optional
            Rows to choose the best epoch. Without them ``validation_fraction`` of P and of U is held out, with its
            weights.
        """
        given = {"X": X, "y": y, "X_val": X_val, "y_val": y_val}
        weights = {"sample_weight": sample_weight, "sample_weight_val": sample_weight_val}
        return self._fit(given | {name: weight for name, weight in weights.items() if weight is not None})
