"""The draw: every row of a band has the same chance, after any number of answers."""

import numpy as np
import pytest

from pulab.review.design import bands, draw
from pulab.tables import TableModel

from ..tables.conftest import Customers


def test_rows_of_a_band_are_equally_likely_to_come_early() -> None:
    rng = np.random.default_rng(0)
    scores, labelled = rng.normal(size=600), rng.normal(1.5, 1, size=80)
    rank = np.argsort(np.argsort(-scores))
    times, early, n_draws = np.zeros(600), 60, 1500
    for _ in range(n_draws):
        times[draw(scores, labelled, 0.5, rng, size=80).rows[:early]] += 1
    drawn = draw(scores, labelled, 0.5, rng)
    for first, last, n in zip([0, *drawn.ends], drawn.ends, np.bincount(drawn.stratum[:early]), strict=False):
        chance = n / (last - first)
        spread = np.sqrt(n_draws * chance * (1 - chance)) + 1e-9
        z = (times[(rank >= first) & (rank < last)] - n_draws * chance) / spread
        assert abs(z).max() < 4.5
        assert z.std() < 1.2


def test_bands_have_the_stated_ranks_and_all_get_a_turn_early() -> None:
    rng = np.random.default_rng(0)
    scores = rng.integers(0, 50, 3000).astype(float)  # many ties
    drawn = draw(scores, rng.integers(20, 60, 200).astype(float), 0.4, rng)
    order = np.argsort(-scores, kind="stable")
    assert drawn.ends.tolist()[:2] == [100, 500]
    assert drawn.ends[-1] == 3000
    assert drawn.labelled.sum() == 200
    place = np.empty(3000, int)
    place[order] = np.arange(3000)
    assert (np.searchsorted(drawn.ends, place[drawn.rows], side="right") == drawn.stratum).all()
    assert len(np.unique(drawn.rows)) == 400
    assert np.bincount(drawn.stratum[:50], minlength=len(drawn.ends)).min() >= 3


@pytest.mark.parametrize("n", [4, 9, 60, 150, 250, 999, 1200])
def test_small_tables_are_drawn_whole(n: int) -> None:
    rng = np.random.default_rng(n)
    assert bands(n)[-1] == n
    drawn = draw(rng.normal(size=n), rng.normal(size=5), 1.0, rng)
    assert len(set(drawn.rows.tolist())) == min(n, 400)


def test_labelled_rows_count_for_the_band_that_they_score_like() -> None:
    scores = np.arange(1000.0)[::-1]
    labelled = np.array([999.5, 950.2, 700.5, 600.5, 10.5])
    assert draw(scores, labelled, 0.5, np.random.default_rng(0)).labelled.tolist() == [2, 2, 1]


def test_the_draw_of_a_model_shows_unlabeled_rows_as_they_are(model: TableModel, people: Customers) -> None:
    assert model.draw is not None
    frame = model.draw.frame
    assert frame.columns[:2] == ["row", "customer"]
    assert not {"churned", "score", "rank", "probability"} & set(frame.columns)
    for row in frame.head(20).iter_rows(named=True):
        assert row["customer"] == people.frame["customer"][row["row"] - 1]
        assert not people.s[row["row"] - 1]
