"""The HTTP client: everything the API does, typed, in async (`KodaClient`) and plain (`Koda`) form.

Every request may be repeated: commands carry an idempotency key, so a retry after a lost response does nothing twice,
and `follow` comes back with the number of the last event it saw. It needs nothing of the server but its address.
"""

from __future__ import annotations

from koda_ray.client.plain import Koda
from koda_ray.client.sessions import KodaClient
from koda_ray.client.transport import DEFAULT_URL, Unreachable

__all__ = ["DEFAULT_URL", "Koda", "KodaClient", "Unreachable"]
