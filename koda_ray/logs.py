"""Loggers: structlog, without rich.

structlog loads rich for tracebacks in colour when it is there, which no log file shows and which costs each session's
process 4 MB. So rich is out of sight while structlog is imported, and only then.
"""

from __future__ import annotations

import sys
from typing import Any, cast

__all__ = ["get_logger"]

_ABSENT = object()
_found = sys.modules.get("rich", _ABSENT)
sys.modules["rich"] = cast("Any", None)
try:
    import structlog
finally:
    if _found is _ABSENT:
        del sys.modules["rich"]
    else:
        sys.modules["rich"] = cast("Any", _found)

get_logger = structlog.get_logger
