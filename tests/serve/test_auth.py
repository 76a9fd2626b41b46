from __future__ import annotations

import hashlib
from pathlib import Path

import httpx
import pytest

from koda_ray.config import Settings
from koda_ray.errors import InvalidInput
from koda_ray.serve.auth import KeyRing, check_exposure, is_loopback

from .world import world

KEY = "k" * 32


def ring(keys: str | None) -> KeyRing:
    return KeyRing.from_settings(Settings.model_validate({"KODA_API_KEYS": keys}))


def test_keys_are_kept_as_hashes() -> None:
    digest = hashlib.sha256(KEY.encode())
    for text in (KEY, f"local={KEY}", f"local=sha256:{digest.hexdigest()}", f" , local={KEY} ,"):
        assert ring(text).users == {digest.digest(): "local"}
        assert ring(text).find(KEY) == "local"
        assert ring(text).find(KEY + "x") is None
    assert KEY not in repr(ring(KEY))


@pytest.mark.parametrize("text", ["short", "ada=short", f"../x={KEY}", f"={KEY}"])
def test_a_bad_entry_is_named_by_place_and_never_shown(text: str) -> None:
    with pytest.raises(InvalidInput, match="entry 2") as error:
        ring(f"{KEY},{text}")
    assert text.partition("=")[2] not in error.value.message or not text.partition("=")[2]


def test_only_loopback_is_served_without_keys() -> None:
    for host in ("127.0.0.1", "::1", "localhost", "127.8.8.8"):
        assert is_loopback(host)
        check_exposure(host, keys=False)
    for host in ("0.0.0.0", "::", "192.168.1.2", "example.org", ""):
        assert not is_loopback(host)
        with pytest.raises(InvalidInput, match="KODA_API_KEYS"):
            check_exposure(host, keys=False)
        check_exposure(host, keys=True)


async def test_a_key_is_required_where_keys_are_set(tmp_path: Path) -> None:
    async with (
        world(tmp_path, KODA_API_KEYS=f"ada={KEY}") as koda,
        httpx.AsyncClient(base_url=koda.url, timeout=60) as http,
    ):
        for headers in ({}, {"Authorization": f"Bearer {'x' * 32}"}, {"Authorization": f"Basic {KEY}"}):
            response = await http.get("/v1/sessions", headers=headers)
            assert (response.status_code, response.json()["code"]) == (401, "UNAUTHORIZED")
            assert response.headers["www-authenticate"] == "Bearer"
        assert (await http.get("/v1/sessions", headers={"Authorization": f"Bearer {KEY}"})).status_code == 200
        assert (await http.get("/v1/health")).status_code == 200


async def test_a_key_of_the_database_is_as_good(tmp_path: Path) -> None:
    async with world(tmp_path) as koda, httpx.AsyncClient(base_url=koda.url, timeout=60) as http:
        assert (await http.get("/v1/sessions")).status_code == 200
        key = await koda.store.create_api_key("ada")
        assert (await http.get("/v1/sessions")).status_code == 401
        headers = {"Authorization": f"Bearer {key}"}
        made = (await http.post("/v1/sessions", json={"prompt": "a ball"}, headers=headers)).json()
        assert (await koda.store.get_session(made["sessionId"])).user_id == "ada"
        await koda.store.revoke_api_key(key)
        assert (await http.get("/v1/sessions", headers=headers)).status_code == 401


async def test_no_other_origin_may_read(tmp_path: Path) -> None:
    async with world(tmp_path) as koda, httpx.AsyncClient(base_url=koda.url, timeout=60) as http:
        response = await http.get("/v1/sessions", headers={"Origin": "https://evil.example"})
        assert not [name for name in response.headers if name.startswith("access-control")]
