"""Base learners of the methods for tables, by name. Run specs and result rows carry the name."""

from collections.abc import Callable
from typing import Any

from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.tree import DecisionTreeClassifier

from pulab._scaling import CutScaler

LEARNERS: dict[str, Callable[[], Any]] = {
    "logistic": lambda: make_pipeline(CutScaler(), LogisticRegression(C=0.1, max_iter=1000)),
    "trees": lambda: HistGradientBoostingClassifier(learning_rate=0.05, max_leaf_nodes=8, random_state=0),
    "small-tree": lambda: DecisionTreeClassifier(max_depth=3),
    "tree-large-leaves": lambda: DecisionTreeClassifier(min_samples_leaf=0.05),
}
