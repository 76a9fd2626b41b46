"""What goes wrong at E2B is waited for, told in our words, or done again; and no key or token is in what is told."""

from __future__ import annotations

import asyncio
import os
import pickle
from collections.abc import Awaitable

import pytest

from koda_ray.errors import (
    KodaError,
    QuotaExceeded,
    SandboxError,
    SandboxNotFound,
    TemplateNotFound,
)
from koda_ray.sandbox.e2b import E2BProvider
from koda_ray.sandbox.e2b_cloud import E2BCloud
from koda_ray.sandbox.e2b_sandbox import E2BSandbox
from koda_ray.types import new_id
from tests.sandbox.e2b import box, cloud_of, make, no_task_is_left, provider, provider_of, server, until
from tests.sandbox.e2b_server import API_KEY, E2BServer, Fault

__all__ = ["box", "no_task_is_left", "provider", "server"]

pytestmark = pytest.mark.needs("e2b")

# refusals and faults


async def test_a_rate_limit_is_waited_for(server: E2BServer, provider: E2BProvider) -> None:
    server.gateway.faults += [
        Fault("POST /v2/sandboxes$", times=2, status=429, headers={"Retry-After": "0"}),
        Fault("POST /v2/sandboxes$", status=503, headers={"Retry-After": "0"}),
    ]
    box = await make(provider)
    assert [kept.id for kept in server.kept.values()] == [box.provider_id]
    keys = {seen.headers["idempotency-key"] for seen in server.gateway.seen if seen.line == "POST /v2/sandboxes"}
    assert len(keys) == 1


@pytest.mark.parametrize(
    ("fault", "code", "retryable", "says"),
    [
        (Fault("POST", times=9, status=429, headers={"Retry-After": "0"}), "QUOTA_EXCEEDED", True, "limit of the plan"),
        (Fault("POST", times=9, status=500), "PROVIDER_ERROR", True, "try again"),
        (
            Fault("POST", times=9, status=503, headers={"Retry-After": "0"}),
            "PROVIDER_ERROR",
            True,
            "nothing was changed",
        ),
        (Fault("POST", status=400, message="bad lifetime"), "PROVIDER_ERROR", False, "bad lifetime"),
        (Fault("POST", status=403, message="no access to template"), "TEMPLATE_NOT_FOUND", False, "E2B_TEMPLATE"),
        (Fault("POST", cut_after=0), "PROVIDER_ERROR", True, "may or may not"),
    ],
)
async def test_refusals_say_what_to_do(
    server: E2BServer, provider: E2BProvider, fault: Fault, code: str, retryable: bool, says: str
) -> None:
    server.gateway.faults.append(fault)
    with pytest.raises(SandboxError) as caught:
        await make(provider)
    assert (caught.value.code, caught.value.retryable) == (code, retryable)
    assert says in caught.value.message
    assert pickle.loads(pickle.dumps(caught.value)).message == caught.value.message


@pytest.mark.full
async def test_the_plan_allows_no_more(server: E2BServer) -> None:
    server.limit = 1
    provider = provider_of(server, cloud=cloud_of(server, retries=0))
    box = await make(provider)
    with pytest.raises(QuotaExceeded, match="maximum number of concurrent"):
        await make(provider)
    await box.destroy()
    await make(provider)


async def test_templates_that_are_none_of_ours(server: E2BServer) -> None:
    with pytest.raises(TemplateNotFound, match="E2B does not know it"):
        await make(provider_of(server, template="unheard-of"))
    with pytest.raises(TemplateNotFound, match="holds no /home/user/project"):
        await make(provider_of(server, template="base"))
    assert server.kept == {}


async def test_one_whose_answer_was_lost_is_found_by_the_next_attempt(server: E2BServer, provider: E2BProvider) -> None:
    server.gateway.faults.append(Fault("POST /v2/sandboxes$", cut_after=0))
    name = new_id("sbx")
    with pytest.raises(SandboxError):
        await provider.create(sandbox_id=name, session_id="s", user_id="u")
    await until(lambda: made(server))
    box = await provider.create(sandbox_id=name, session_id="s", user_id="u")
    assert (await box.read_file("public/logo.svg")) == b"<svg/>\n"
    assert len(server.kept) == 1


async def made(server: E2BServer) -> bool:
    return len(server.kept) == 1


async def test_a_cancelled_creation_leaves_nothing(server: E2BServer, provider: E2BProvider) -> None:
    reached = asyncio.Event()

    async def hold() -> None:
        reached.set()
        await asyncio.sleep(0.1)

    server.gateway.faults.append(Fault("POST /v2/sandboxes$", before=hold))
    making = asyncio.create_task(make(provider))
    await reached.wait()
    making.cancel()
    with pytest.raises(asyncio.CancelledError):
        await making
    assert server.kept == {}


@pytest.mark.full
async def test_a_stream_that_breaks_ends_its_command(server: E2BServer, box: E2BSandbox) -> None:
    server.gateway.faults.append(Fault("POST /process.Process/Start", cut_after=20_000))
    with pytest.raises(SandboxError) as caught:
        await box.run(("sh", "-c", "while :; do echo a line of output; date +%N > src/beat.ts; sleep 0.001; done"))
    assert (caught.value.code, caught.value.retryable) == ("PROVIDER_ERROR", True)
    last = await box.read_file("src/beat.ts")
    await asyncio.sleep(0.2)
    assert await box.read_file("src/beat.ts") == last


@pytest.mark.full
async def test_files_whose_answer_is_cut_off_can_be_asked_for_again(server: E2BServer, box: E2BSandbox) -> None:
    data = os.urandom(400_000)
    await box.write_files({"public/a.bin": data})
    server.gateway.faults.append(Fault("GET /files", cut_after=100_000))
    with pytest.raises(SandboxError) as caught:
        await box.read_file("public/a.bin")
    assert caught.value.retryable
    assert await box.read_file("public/a.bin") == data


async def test_one_that_just_worked_is_alive_without_being_asked_for(server: E2BServer, box: E2BSandbox) -> None:
    server.gateway.faults.append(Fault(".", times=99, status=500))
    assert await box.is_alive()


async def test_an_e2b_that_is_down_is_neither_alive_nor_dead(server: E2BServer) -> None:
    box = await make(provider_of(server, cloud=cloud_of(server, trusted_s=0)))
    server.gateway.faults.append(Fault(".", times=99, status=500))
    for call in (box.is_alive(), box.read_file("src/App.tsx"), box.run(("true",))):
        with pytest.raises(SandboxError) as caught:
            await call
        assert not isinstance(caught.value, SandboxNotFound)
    server.gateway.faults.clear()
    assert await box.is_alive()


@pytest.mark.full
async def test_an_address_that_nobody_answers_at() -> None:
    provider = E2BProvider(E2BCloud(api_key=API_KEY, api_url="http://127.0.0.1:9"), template="koda", deployment="d")
    with pytest.raises(SandboxError, match="Is this machine online"):
        await make(provider)


@pytest.mark.full
async def test_answers_that_hostile_code_made_up_are_refused(server: E2BServer, box: E2BSandbox) -> None:
    folder = server.of(box.id).machine.folder / "opt" / "koda"
    archive = next(folder.glob("*.pyz"))
    write = "import struct; w(struct.pack('>I', len(t)) + t + b'x')"
    for lie in (
        "print('no answer at all')",
        f't = b\'{{"ok": true, "files": [["../../etc/passwd", 1]]}}\'; {write}',
        f't = b\'{{"ok": true, "files": [["a", 99]]}}\'; {write}',
        "w(b'\\xff' * 100)",
        "w(b'x' * 300_000)",
    ):
        archive.write_text(f"import sys; w = sys.stdout.buffer.write\n{lie}\n")
        with pytest.raises(SandboxError, match="nonsense"):
            await box.read_file("src/App.tsx")
    for lie in (
        '"stamps": [1], "skipped": {}, "modes": {}',
        '"stamps": {}, "skipped": {}, "modes": {"../out": 493}',
        '"stamps": {"a": [1, 2, 3]}, "skipped": {}, "modes": {"a": "755"}',
        '"stamps": {}, "skipped": ["a"], "modes": {}',
        '"stamps": {"a": [1, 2, 3]}, "skipped": {}, "modes": {}, "folders": ["a"]',
        '"stamps": {}, "skipped": {}, "modes": {}, "folders": ["../out"]',
    ):
        text = f't = b\'{{"ok": true, {lie}, "files": []}}\'; import struct; w(struct.pack(">I", len(t)) + t)'
        archive.write_text(f"import sys; w = sys.stdout.buffer.write\n{text}\n")
        with pytest.raises(SandboxError, match="nonsense"):
            await box.snapshot()
    archive.write_text("import sys; sys.exit('a traceback')")
    with pytest.raises(SandboxError, match="a traceback"):
        await box.list_files()
    archive.unlink()
    assert await box.read_file("public/logo.svg") == b"<svg/>\n"


# secrets


async def test_no_error_shows_a_key_or_a_token(server: E2BServer) -> None:
    box = await make(provider_of(server, cloud=cloud_of(server, trusted_s=0)))
    machine, token = server.of(box.id).machine, server.of(box.id).traffic_token
    assert token
    wrong = "e2b_" + "f" * 32
    secrets = (API_KEY, wrong, machine.token, token)
    server.gateway.faults += [
        Fault("POST /files", status=401, message=f"unauthorized access token {machine.token} {API_KEY}"),
        Fault("GET /sandboxes/", status=400, message=f"odd {token}"),
    ]
    calls: list[Awaitable[object]] = [
        box.write_files({"public/a.bin": b"x" * 100_000}),
        box.is_alive(),
        make(provider_of(server, cloud=cloud_of(server, api_key=wrong))),
    ]
    for call in calls:
        with pytest.raises(KodaError) as caught:
            await call
        error = caught.value
        shown = f"{error!r} {error.context} {error.__cause__!r}"
        assert not any(secret in shown for secret in secrets), shown
        assert error.__suppress_context__
    assert token not in repr(box.endpoint(5173))


async def test_a_wrong_key_is_named_as_such(server: E2BServer) -> None:
    with pytest.raises(SandboxError, match="E2B_API_KEY") as caught:
        await make(provider_of(server, cloud=cloud_of(server, api_key="e2b_wrong")))
    assert not caught.value.retryable
