"""The prior of a classifier: given, or estimated."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pulab._validation import check_prior
from pulab.errors import warn
from pulab.metrics import prior_of_unlabeled
from pulab.priors import estimate_prior


def resolve_prior(
    prior: Any, X: Any, positive: NDArray[np.bool_], scenario: str, seed: int
) -> tuple[float, tuple[float, float]]:
    """The prior and its interval."""
    if isinstance(prior, str) and prior == "estimate":
        seed %= 2**31  # numpy's older generators take 32 bits
        estimate = estimate_prior(X, positive.astype(int), scenario=scenario, random_state=seed)
        return estimate.prior, estimate.interval
    if prior is None:
        warn("no prior was given: taking 0.5. Pass prior=…, the share of positives, or prior='estimate'.")
        return 0.5, (0.5, 0.5)
    share = check_prior(prior)
    prior_of_unlabeled(share, int(positive.sum()), int((~positive).sum()), scenario)  # refuses impossible priors
    return share, (share, share)
