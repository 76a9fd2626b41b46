"""What a page that is only looked at may send to its dev server: two messages of Vite's own client, written anew.

A page may send events of its own (``import.meta.hot.send``), and plugins of a project do what they say: that is to
write. Vite's client needs a sign of life, which nobody answers, and to say that a module cannot take its update itself,
so that those which import it get one; the server takes that once for each update. All else is dropped without a word:
a client whose socket ends would load the page anew for ever.

Source: Vite 8, ``client/client.ts`` and ``server/environment.ts`` (``vite:invalidate``).
"""

from __future__ import annotations

import json
from typing import Any, cast

__all__ = ["only_looks"]

_PING = '{"type":"ping"}'
_TEXTS = ("path", "message", "firstInvalidatedBy")
_LONGEST = 64 * 1024
_CHARS = 4096


def only_looks(message: str | bytes) -> str | None:
    """Return what is passed on of a message; None where it is nothing that looking needs."""
    if not isinstance(message, str) or len(message) > _LONGEST:
        return None
    try:
        said = json.loads(message)
    except (ValueError, RecursionError):
        return None
    match said:
        case {"type": "ping"}:
            return _PING
        case {"type": "custom", "event": "vite:invalidate", "data": {"path": str()} as data}:
            given = cast("dict[str, Any]", data)
            texts = {name: given[name][:_CHARS] for name in _TEXTS if isinstance(given.get(name), str)}
            return json.dumps({"type": "custom", "event": "vite:invalidate", "data": texts})
        case _:
            return None
