"""What every route takes: the application's parts, who asks, and sessions that belong to them.

These are FastAPI dependencies. A session of another user is not found, exactly like one that does not exist.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Annotated, cast

from fastapi import Depends, Header, Path
from starlette.requests import HTTPConnection

from koda_ray.errors import InvalidInput
from koda_ray.sandbox.providers import Providers
from koda_ray.sandbox.workshop import Workshop
from koda_ray.serve.background import Background
from koda_ray.serve.callers import Callers
from koda_ray.serve.deps import ApiDeps
from koda_ray.serve.parts import Parts
from koda_ray.serve.quotas import Streams
from koda_ray.serve.signing import Forbidden
from koda_ray.serve.streams import Watchers
from koda_ray.serve.unpacking import Unpacking
from koda_ray.state.records import SessionRecord
from koda_ray.types import new_id

__all__ = [
    "Closing",
    "Deps",
    "Following",
    "IdempotencyKey",
    "Operator",
    "OwnSession",
    "OwnWorkshop",
    "SessionId",
    "User",
    "background_of",
    "callers_of",
    "deps_of",
    "disk_of",
    "parts_of",
    "streams_of",
    "unpacking_of",
    "user_of",
    "watchers_of",
    "workshop_of",
]

SessionId = Annotated[
    str,
    Path(alias="session_id", min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_-]+$", description="A session's id"),
]


def deps_of(connection: HTTPConnection) -> ApiDeps:
    """Return the parts that the application was made with."""
    return cast(ApiDeps, connection.app.state.deps)


def callers_of(connection: HTTPConnection) -> Callers:
    """Return who knows whose request it is, for addresses that are everybody's."""
    return cast(Callers, connection.app.state.callers)


def background_of(connection: HTTPConnection) -> Background:
    """Return the owner of work that outlives a request."""
    return cast(Background, connection.app.state.background)


def watchers_of(connection: HTTPConnection) -> Watchers:
    """Return the count of who follows what."""
    return cast(Watchers, connection.app.state.watchers)


def streams_of(connection: HTTPConnection) -> Streams:
    """Return the count of streams that are open."""
    return cast(Streams, connection.app.state.streams)


def unpacking_of(connection: HTTPConnection) -> Unpacking:
    """Return the count of what is held unpacked."""
    return cast(Unpacking, connection.app.state.unpacking)


def disk_of(connection: HTTPConnection) -> Unpacking:
    """Return the count of what lies among the temporary files: what is received, folders for images, zips to send."""
    return cast(Unpacking, connection.app.state.bodies.disk)


def parts_of(connection: HTTPConnection) -> Parts:
    """Return who looks whether the parts below work."""
    return cast(Parts, connection.app.state.parts)


def user_of(connection: HTTPConnection) -> str:
    """Return who asks, which the gate has found out."""
    return cast(str, connection.user)


def workshop_of(connection: HTTPConnection, user_id: str) -> Workshop:
    """Return a user's own sandboxes."""
    providers = cast(Providers, connection.app.state.providers)
    return Workshop(deps_of(connection).store, providers, user_id=user_id)


# what a request depends on is a coroutine, each of them: FastAPI calls a plain function in a thread, and waits for that
async def _deps(connection: HTTPConnection) -> ApiDeps:
    return deps_of(connection)


Deps = Annotated[ApiDeps, Depends(_deps)]


async def _closing() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as opened:
        yield opened


Closing = Annotated[AsyncExitStack, Depends(_closing)]
"""What a stream of events reads is entered here, and so closed with its request. Where a client hangs up while an event
is being sent, nobody goes on with the route's own generator: what that would close stays open until it is collected."""


async def _user(connection: HTTPConnection) -> str:
    return user_of(connection)


User = Annotated[str, Depends(_user)]


async def _operator(user: User, deps: Deps) -> str:
    if user not in {name.strip() for name in deps.settings.operators.split(",")}:
        raise Forbidden(
            f"{user} is not among those who see the whole deployment: name them in KODA_OPERATORS where the server "
            "is started (users, separated by commas)",
            code="NOT_AN_OPERATOR",
        )
    return user


Operator = Annotated[str, Depends(_operator)]
"""Who asks, where that is somebody who runs the deployment."""


async def _following(connection: HTTPConnection, user: User, closing: Closing) -> AsyncIterator[AsyncExitStack]:
    with streams_of(connection).joined(user):
        yield closing


Following = Annotated[AsyncExitStack, Depends(_following)]
"""A place among its user's streams, from before the first byte to the end of the request: for what is waited
for long. What it reads is entered here, as in `Closing`."""


async def _own_session(session_id: SessionId, user: User, deps: Deps) -> SessionRecord:
    return await deps.store.get_session(session_id, user_id=user)


async def _own_workshop(connection: HTTPConnection, user: User) -> Workshop:
    return workshop_of(connection, user)


OwnWorkshop = Annotated[Workshop, Depends(_own_workshop)]
OwnSession = Annotated[SessionRecord, Depends(_own_session)]


async def _idempotency_key(
    idempotency_key: Annotated[
        str | None,
        Header(
            description="Any string of your own, at most 255 visible ASCII characters. The same key with the same body "
            "is answered as before and does nothing again; with another body it is refused with 409."
        ),
    ] = None,
) -> str:
    if idempotency_key is None:
        return new_id("cmd")
    key = idempotency_key.strip()
    if not key or len(key) > 255 or not key.isascii() or not key.isprintable():
        raise InvalidInput(
            f"the Idempotency-Key header has {len(key)} characters; it needs 1 to 255 visible ASCII characters"
        )
    return key


IdempotencyKey = Annotated[str, Depends(_idempotency_key)]
