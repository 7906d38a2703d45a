"""The number of threads: several only for large tables."""

from typing import Any

LARGE = 2**22  # numbers in a table


def threads_for(n_numbers: int) -> Any:
    """A context with one thread for a small table, and with all threads for a large one.

    On small arrays threads mostly wait for each other. A fit to 569 rows with all methods took 156 s on two busy cores,
    and 23 s with one thread.
    """
    from threadpoolctl import threadpool_limits

    return threadpool_limits(None if n_numbers >= LARGE else 1)
