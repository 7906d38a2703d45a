"""JSON of model files, whose values may take little more memory than their text."""

import json
from typing import Any

from pulab.errors import ModelFileError

# A list or a dict takes 56 to 184 bytes, and may be written in two. So there may be one for so many bytes. Files
# that pulab writes have one for 59 or more. Words and numbers still take up to 17 times their text.
BYTES, SPARE = 32, 1000


def read_json(raw: bytes) -> Any:
    """The value of a JSON text. A text of many empty lists, which would take 30 times its size, is refused."""
    if raw.count(b"[") + raw.count(b"{") > len(raw) / BYTES + SPARE:
        raise ModelFileError("a text in it has more lists than pulab writes")
    return json.loads(raw)
