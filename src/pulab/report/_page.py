"""From a template of this folder to a page."""

from functools import cache
from typing import Any


def render(template: str, **values: Any) -> str:
    """The page; every value is escaped, unless the template calls it safe."""
    return str(_environment().get_template(template).render(**values))


@cache  # reading the templates takes longer than filling them
def _environment() -> Any:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    loader = PackageLoader("pulab", "report")
    # StrictUndefined: a name that a template reads and nobody passes is an error, not an empty text.
    return Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined)
