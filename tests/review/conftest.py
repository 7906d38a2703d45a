"""A fitted table to review, and the truth about it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from pulab.review import Draw
from pulab.tables import TableModel, fit_table

from ..tables.conftest import Customers


@pytest.fixture(scope="session")
def people() -> Customers:
    return Customers(600, seed=3)


@pytest.fixture(scope="session")
def folder(people: Customers, tmp_path_factory: pytest.TempPathFactory) -> Path:
    model = fit_table(people.frame, "churned", id="customer", method="elkan-noto", prior=0.3)
    return model.save(tmp_path_factory.mktemp("review") / "model")


@pytest.fixture(scope="session")
def model(folder: Path) -> TableModel:
    return TableModel.load(folder)


@pytest.fixture(scope="session")
def draw(model: TableModel) -> Draw:
    assert model.draw is not None
    return model.draw


@pytest.fixture(scope="session")
def truth(people: Customers, draw: Draw) -> Callable[[int], str]:
    """The right answer to the row at a place of the draw."""
    rows = draw.frame["row"].to_list()
    return lambda place: "yes" if people.y[rows[place] - 1] else "no"
