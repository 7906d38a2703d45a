"""JSON of model files, whose values may take little more memory than their text."""

import json
from collections.abc import Callable
from typing import Any

from pulab.errors import ModelFileError

# A list or a dict takes 56 to 184 bytes of memory, and its text may be two bytes long. So a text may have one list or
# dict for each 32 bytes. Files that pulab writes have one for 59 bytes or more. Words and numbers still take up to 17
# times their text.
BYTES, SPARE = 32, 1000


def check_lists(text: bytes | str) -> None:
    """Refuse a text of many empty lists, which would take 30 times its size."""
    n = text.count("[") + text.count("{") if isinstance(text, str) else text.count(b"[") + text.count(b"{")
    if n > len(text) / BYTES + SPARE:
        raise ModelFileError("a text in it has more lists than pulab writes")


def read_json(text: bytes | str, hook: Callable[[dict[str, Any]], Any] | None = None) -> Any:
    """The value of a JSON text. ``hook`` gets each dict when it is read, and its result takes the place of the dict."""
    check_lists(text)
    return json.loads(text, object_hook=hook)
