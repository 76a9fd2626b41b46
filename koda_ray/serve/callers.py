"""Who asks: whose key a request has, and how often an address may be wrong about it.

There is one place that looks at keys, so that no address guesses without being counted: not at what needs a key, and
not at what only tells more to whoever has one.
"""

from __future__ import annotations

from starlette.requests import HTTPConnection

from koda_ray.serve.auth import Authenticator, Unauthorized, bearer
from koda_ray.serve.tries import Tries

__all__ = ["Callers"]


class Callers:
    """Knows who asks, in one process.

    Args:
        auth: Knows the keys.
    """

    def __init__(self, auth: Authenticator) -> None:
        self.auth = auth
        self._tries = Tries()

    async def user(self, connection: HTTPConnection) -> str:
        """Return whose request this is.

        Raises:
            Unauthorized: Nobody's.
            LimitReached: LIMIT_REACHED, its address tried too many keys that nobody has.
        """
        headers, address = connection.headers, connection.client.host if connection.client else ""
        key = bearer(headers.get("authorization"))
        if key is not None:
            self._tries.check(address, key)
        try:
            user = await self.auth.user(headers, connection.scope.get("method"))
        except Unauthorized:
            if key is not None:
                self._tries.was_wrong(address, key)
            raise
        if key is not None:
            self._tries.was_right(key)
        return user
