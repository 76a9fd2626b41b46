"""Sign-in for browsers: a key becomes a cookie, and is not needed again; see `logins`."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Header, Request, Response

from koda_ray.serve.auth import bearer
from koda_ray.serve.context import Deps, User
from koda_ray.serve.logins import LOGIN_TTL, is_own_page
from koda_ray.serve.problem import responses
from koda_ray.serve.signing import Forbidden
from koda_ray.state.rows import KEY_ID_CHARS, key_hash
from koda_ray.types import now
from koda_ray.wire import LoginView

__all__ = ["router"]

router = APIRouter(prefix="/v1/login", tags=["login"])
_RENEWED = timedelta(days=1)
_Origin = Annotated[str | None, Header(include_in_schema=False)]


@router.post("", operation_id="signIn", summary="Sign a browser in", responses=responses(401, 403, 429))
async def sign_in(user: User, deps: Deps, request: Request, response: Response, origin: _Origin = None) -> LoginView:
    """Take the key of `Authorization`, and give a cookie that stands for it.

    With it a browser needs no key for the API, its videos and its streams. It is `HttpOnly`, counts for pages of this
    server alone, and lasts 13 to 14 days after the page was last opened, and no longer than its key. Where no keys are
    needed, nothing is given. A page of another origin is refused (WRONG_ORIGIN): it sends its key with each request.
    """
    _check_own(request)
    key = bearer(request.headers.get("authorization"))
    if key is None:
        return await sign_in_state(user, deps, request, response, origin)
    expires_at = deps.auth.logins.sign_in(response, key_hash(key)[:KEY_ID_CHARS], secure=_is_secure(origin))
    return LoginView(user=user, signed_in=True, expires_at=expires_at)


@router.get("", operation_id="getLogin", summary="Read who is signed in", responses=responses(401))
async def sign_in_state(
    user: User, deps: Deps, request: Request, response: Response, origin: _Origin = None
) -> LoginView:
    """Say whose the requests are, and whether by a cookie; one that is a day old is renewed."""
    login = deps.auth.logins.read(request.headers)
    if login is None or not is_own_page(request.headers, "GET"):
        return LoginView(user=user, signed_in=False)
    page = origin or request.headers.get("referer")
    if page is None or login.expires_at - now() > LOGIN_TTL - _RENEWED:
        return LoginView(user=user, signed_in=True, expires_at=login.expires_at)
    renewed = deps.auth.logins.sign_in(response, login.key_id, secure=_is_secure(page))
    return LoginView(user=user, signed_in=True, expires_at=renewed)


@router.delete("", operation_id="signOut", summary="Sign a browser out", status_code=204, responses=responses(401, 403))
async def sign_out(user: User, deps: Deps, request: Request, origin: _Origin = None) -> Response:
    """Take the cookie from the browser that asks. To end what others have of it, revoke the key."""
    _check_own(request)
    response = Response(status_code=204)
    deps.auth.logins.sign_out(response, secure=_is_secure(origin))
    return response


def _check_own(request: Request) -> None:
    """Refuse a page of another origin, which could else change who a person is signed in as, with a key of its own."""
    if not is_own_page(request.headers, "GET"):
        raise Forbidden(
            "a browser is signed in and out by this server's own pages: send the header 'Authorization: Bearer <key>' "
            "with each request from elsewhere",
            code="WRONG_ORIGIN",
        )


def _is_secure(address: str | None) -> bool:
    """Whether the browser speaks TLS, which may end at a proxy before us: the page's own address says so."""
    return (address or "").startswith("https:")
