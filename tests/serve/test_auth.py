from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import httpx
import pytest

from koda_ray.actors.directory import public_settings
from koda_ray.config import Settings
from koda_ray.errors import InvalidInput
from koda_ray.serve import deployed
from koda_ray.serve.app import application, check_replica
from koda_ray.serve.auth import KeyRing, decide_keys, is_loopback

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


async def test_only_loopback_is_served_without_keys(tmp_path: Path) -> None:
    async with world(tmp_path, serve=False) as koda:
        for host in ("127.0.0.1", "::1", "localhost", "127.8.8.8"):
            assert is_loopback(host)
            assert not (await decide_keys(koda.settings.model_copy(update={"host": host}), koda.store)).keys_required
        for host in ("0.0.0.0", "::", "192.168.1.2", "example.org", ""):
            assert not is_loopback(host)
            with pytest.raises(InvalidInput, match="KODA_API_KEYS"):
                await decide_keys(koda.settings.model_copy(update={"host": host}), koda.store)


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
        assert (await http.get("/v1/sessions")).status_code == 401


async def test_a_server_on_a_network_stays_closed_when_its_last_key_is_revoked(tmp_path: Path) -> None:
    async with world(tmp_path, serve=False) as koda:
        key = await koda.store.create_api_key("ada")
    async with (
        world(tmp_path, KODA_HOST="0.0.0.0") as koda,
        httpx.AsyncClient(base_url=koda.url, trust_env=False, timeout=60) as http,
    ):
        await koda.store.revoke_api_key(key)
        for host in ("localhost", "127.0.0.1", "koda.example", "0.0.0.0"):  # a client may send any
            response = await http.get("/v1/sessions", headers={"Host": host})
            assert (response.status_code, response.json()["code"]) == (401, "UNAUTHORIZED")
            assert "koda keys create" in response.json()["detail"]
        made = await http.post("/v1/sessions", json={"prompt": "a ball"}, headers={"Host": "localhost"})
        assert made.status_code == 401
        again = await koda.store.create_api_key("ada")  # the way out, without a restart
        assert (await http.get("/v1/sessions", headers={"Authorization": f"Bearer {again}"})).status_code == 200


async def test_a_database_that_had_keys_stays_closed_also_after_a_restart(tmp_path: Path) -> None:
    async with world(tmp_path, serve=False) as koda:
        await koda.store.revoke_api_key(await koda.store.create_api_key("ada"))
    async with (
        world(tmp_path) as koda,
        httpx.AsyncClient(base_url=koda.url, trust_env=False, timeout=60) as http,
    ):
        response = await http.get("/v1/sessions")
        assert response.status_code == 401 and "koda keys create" in response.json()["detail"]


async def test_whether_keys_are_required_is_decided_at_start(tmp_path: Path) -> None:
    async def decided(**settings: object) -> bool:
        async with world(tmp_path, serve=False, **settings) as koda:
            return (await decide_keys(koda.settings, koda.store)).keys_required

    assert not await decided()
    assert await decided(KODA_API_KEYS=KEY) and await decided(KODA_API_KEYS=KEY, KODA_HOST="0.0.0.0")
    for exposed in ({"KODA_HOST": "0.0.0.0"}, {"KODA_KEYS_REQUIRED": True}):
        with pytest.raises(InvalidInput, match="koda keys create"):
            await decided(**exposed)
    async with world(tmp_path, serve=False) as koda:
        key = await koda.store.create_api_key("ada")
    assert await decided() and await decided(KODA_HOST="0.0.0.0")
    async with world(tmp_path, serve=False) as koda:
        await koda.store.revoke_api_key(key)
    assert await decided()  # nobody is let in whom a key would have kept out
    with pytest.raises(InvalidInput, match="koda keys create"):
        await decided(KODA_HOST="0.0.0.0")


def test_where_serve_says_where_it_listens_keys_are_required_whatever_our_host_is(tmp_path: Path) -> None:
    values = {"DATABASE_PATH": tmp_path / "koda.db", "STORAGE_PATH": tmp_path / "storage", "KODA_SIGNING_KEY": KEY}
    with pytest.raises(InvalidInput, match="koda keys create"):
        deployed.described(Settings.model_validate(values))  # KODA_HOST is loopback, and Serve's file may say another
    with pytest.raises(InvalidInput, match="KODA_SIGNING_KEY"):
        deployed.described(Settings.model_validate({**values, "KODA_SIGNING_KEY": None, "KODA_API_KEYS": KEY}))
    assert deployed.described(Settings.model_validate({**values, "KODA_API_KEYS": KEY})) is not None


async def test_a_replica_without_the_keys_of_its_server_does_not_start(tmp_path: Path) -> None:
    async with world(tmp_path, serve=False, KODA_API_KEYS=KEY) as koda:
        public = public_settings(await decide_keys(koda.settings, koda.store))
    assert public["keys_required"] is True and KEY not in repr(public)
    replica = Settings.model_validate(public)  # as on a node whose environment has no KODA_API_KEYS
    with pytest.raises(InvalidInput, match="this node"):
        async with replica_of(replica):
            pass
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KODA_API_KEYS", KEY)
        async with replica_of(Settings.model_validate(public)) as http:
            assert (await http.get("/v1/sessions")).status_code == 401
            assert (await http.get("/v1/sessions", headers={"Authorization": f"Bearer {KEY}"})).status_code == 200
    async with world(tmp_path, serve=False) as koda:
        key = await koda.store.create_api_key("ada")
    async with replica_of(replica) as http:  # keys of the database are every node's
        assert (await http.get("/v1/sessions", headers={"Host": "localhost"})).status_code == 401
        assert (await http.get("/v1/sessions", headers={"Authorization": f"Bearer {key}"})).status_code == 200


async def test_keys_that_only_a_file_of_settings_has_are_asked_for(tmp_path: Path) -> None:
    (tmp_path / "koda.env").write_text(f"KODA_API_KEYS=ada={KEY}\nKODA_HOST=0.0.0.0\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(cast("dict[str, object]", Settings.model_config), "env_file", tmp_path / "koda.env")
        async with (
            world(tmp_path) as koda,
            httpx.AsyncClient(base_url=koda.url, trust_env=False, timeout=60) as http,
        ):
            assert (await decide_keys(koda.settings, koda.store)).keys_required
            assert (await http.get("/v1/sessions", headers={"Host": "localhost"})).status_code == 401
            known = await http.get("/v1/sessions", headers={"Authorization": f"Bearer {KEY}"})
            assert known.status_code == 200


@asynccontextmanager
async def replica_of(settings: Settings) -> AsyncGenerator[httpx.AsyncClient]:
    """Start the application as a replica does, from what its server hands on and its own environment."""
    await check_replica(settings)
    app = application(settings, None)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1", timeout=60) as http,
    ):
        yield http


async def test_no_other_origin_may_read(tmp_path: Path) -> None:
    async with world(tmp_path) as koda, httpx.AsyncClient(base_url=koda.url, timeout=60) as http:
        response = await http.get("/v1/sessions", headers={"Origin": "https://evil.example"})
        assert not [name for name in response.headers if name.startswith("access-control")]
