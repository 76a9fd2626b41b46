"""How often a user may change something: a bucket of tokens for each, which fills again with time.

How much is under way at once bounds nothing that is quick: a thousand small commands or edits a second are a thousand
writes a second to the database and to sandboxes. So each request that may change something takes a token, whatever
becomes of it. A full bucket is a minute's worth, so that who does much at times is not kept waiting. It is counted in
each process by itself: of several that serve one deployment, each gives as many.

Source: RFC 2697's token bucket; RFC 9110, section 9.2.1 (safe methods).
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable

from koda_ray.errors import LimitReached

__all__ = ["CHANGE_LESS", "SAFE_METHODS", "Rates"]

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
"""What changes nothing."""
CHANGE_LESS = "wait a moment, say or send more with each, or have KODA_USER_CHANGES_PER_MIN raised"
_MINUTE_S = 60.0
_MOST_USERS = 10_000


class Rates:
    """The buckets of all users.

    Args:
        per_min: How many tokens a user gets in a minute, and has at most; any number where it is 0.
        way_out: What a user may do who has none, for people.
        clock: Monotonic seconds.
    """

    def __init__(self, per_min: int, *, way_out: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_min = per_min
        self._way_out = way_out
        self._clock = clock
        self._empty_at: OrderedDict[str, float] = OrderedDict()

    def take(self, user_id: str) -> None:
        """Take a token.

        Raises:
            LimitReached: LIMIT_REACHED, the user has none left; ``retryAfterS`` says when there is one again.
        """
        if not self._per_min:
            return
        # a bucket is kept as the moment since which it would have to have filled to be as full as it is
        at, each_s = self._clock(), _MINUTE_S / self._per_min
        since = max(self._empty_at.get(user_id, -math.inf), at - _MINUTE_S)
        if at - since < each_s:
            raise LimitReached(
                f"{self._per_min:,} changes of yours came within a minute, as many as may be: {self._way_out}",
                retry_after_s=max(0.1, each_s - (at - since)),
                context={"limit": self._per_min},
            )
        self._empty_at[user_id] = since + each_s
        self._empty_at.move_to_end(user_id)
        if len(self._empty_at) > _MOST_USERS:
            self._empty_at.popitem(last=False)
