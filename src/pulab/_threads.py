"""The number of threads: several only for large tables."""

from collections.abc import Iterator
from contextlib import contextmanager

LARGE = 2**22  # numbers in a table


@contextmanager
def threads_for(n_numbers: int) -> Iterator[None]:
    """One thread for a small table, all threads for a large one.

    On small arrays threads mostly wait for each other. A fit to 569 rows with all methods took 156 s on two busy cores,
    and 23 s with one thread.
    """
    from threadpoolctl import threadpool_limits

    if n_numbers >= LARGE:
        yield
    else:
        with threadpool_limits(1):
            yield
