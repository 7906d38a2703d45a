"""Pages from the templates of this folder."""

from functools import cache
from typing import Any


def render(template: str, **values: Any) -> str:
    """Fill a template. Values are escaped unless the template marks them as safe."""
    return str(_environment().get_template(template).render(**values))


@cache  # reading templates takes longer than filling them
def _environment() -> Any:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    loader = PackageLoader("pulab", "report")
    # StrictUndefined: an unknown name in a template is an error, not an empty text.
    return Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined)
