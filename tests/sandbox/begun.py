"""Commands that are to run out of time, but not before they have come so far: how soon that is, is the machine's."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from koda_ray.errors import CommandTimeout, NotFound
from koda_ray.sandbox.base import Sandbox

__all__ = ["timed_out"]

_LIMITS_S = (1.0, 5.0, 25.0, 55.0)


async def timed_out(sandbox: Sandbox, argv: Sequence[str], *, begun: Sequence[str]) -> CommandTimeout:
    """Have a command run out of time, with more of it where it had not come so far.

    Args:
        sandbox: Where it runs.
        argv: What never ends by itself.
        begun: The files that it makes before it is to be ended.

    Returns:
        What came of the last try.
    """
    for limit_s in _LIMITS_S:
        with pytest.raises(CommandTimeout) as caught:
            await sandbox.run(argv, timeout_s=limit_s)
        try:
            for path in begun:
                await sandbox.read_file(path)
        except NotFound:
            continue
        return caught.value
    pytest.fail(f"{argv} did not make {begun} in {_LIMITS_S[-1]} s")
