"""The Modal provider under the suite of all providers, at the SDK's public surface; see ``test_paid``."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

import httpx
import pytest

pytest.importorskip("modal", reason="it comes with the extra modal")

import modal

from koda_ray.config import Settings
from koda_ray.errors import InvalidInput, Missing, QuotaExceeded, SandboxError, SandboxNotFound, TemplateNotFound
from koda_ray.sandbox.egress.rules import EgressRules
from koda_ray.sandbox.image_context import ImageContext
from koda_ray.sandbox.modal import ModalProvider
from koda_ray.sandbox.modal_app import ModalApp, ModalTerms, translated
from koda_ray.sandbox.modal_image import image_in
from koda_ray.sandbox.modal_sandbox import LONGEST_S
from koda_ray.sandbox.record import created_at_s
from koda_ray.sandbox.service import SandboxService, provider_from
from koda_ray.types import new_id
from tests.sandbox.conformance import SandboxConformance
from tests.sandbox.e2b import Ids
from tests.sandbox.e2b_server.machine import TemplateImage
from tests.sandbox.modal_cloud import SECRET, TOKEN, Cloud

pytestmark = pytest.mark.needs("e2b")  # whose machines stand for Modal's

_SERVER = """
const http = require("node:http");
const at = (name) => process.argv[process.argv.indexOf(name) + 1];
const page = (request, answer) => answer.end(`page of ${process.env.KODA_BASE}`);
http.createServer(page).listen(Number(at("--port")), at("--host"));
"""


@pytest.fixture
async def cloud(template: Path, node_modules: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Cloud]:
    with tempfile.TemporaryDirectory(prefix="koda-modal-", dir="/tmp") as folder:  # short: sockets lie in it
        made = Cloud(
            Path(folder), {"im-koda": TemplateImage(template, node_modules), "im-other": TemplateImage(None, None)}
        )
        made.install(monkeypatch)
        yield made
        await made.close()


def app_of(*, token_secret: str = SECRET) -> ModalApp:
    return ModalApp("koda", token_id=TOKEN, token_secret=token_secret)


def provider_of(
    *, app: ModalApp | None = None, image: str = "im-koda", deployment: str = "", **terms: object
) -> ModalProvider:
    return ModalProvider(
        app or app_of(),
        image=image,
        deployment=deployment or uuid4().hex,
        terms=ModalTerms(**{"pids": 64, **terms}),  # type: ignore[arg-type]
    )


@pytest.mark.full(all=True)
class TestModal(SandboxConformance):
    """Every command runs in a machine of its own; the SDK's place is taken at its public surface."""

    @pytest.fixture
    def leftovers(self) -> Ids:
        return Ids()

    @pytest.fixture
    async def provider(self, cloud: Cloud) -> AsyncIterator[ModalProvider]:
        made = provider_of()
        yield made
        assert await made.list() == [] and not cloud.boxes


async def _made(provider: ModalProvider, name: str) -> str:
    await provider.create(sandbox_id=name, session_id="ses_a", user_id="usr_a")
    return name


async def test_it_is_asked_for_with_every_wall_and_label(cloud: Cloud) -> None:
    provider = provider_of(
        deployment="here",
        egress=EgressRules.parse(["registry.example", "198.51.100.7"]),
        lifetime_s=600,
        memory_mb=1024,
    )
    name = await _made(provider, new_id("sbx"))
    asked = cloud.boxes[name].asked
    assert (asked["outbound_domain_allowlist"], asked["outbound_cidr_allowlist"]) == (
        ["registry.example"], ["198.51.100.7/32"]
    )  # fmt: skip
    assert (asked["timeout"], asked["idle_timeout"], asked["memory"], asked["encrypted_ports"]) == (
        LONGEST_S, 600, 1024, [5173]
    )  # fmt: skip
    assert {"koda_sandbox_id": name, "koda_deployment": "here", "koda_session_id": "ses_a"}.items() <= asked[
        "tags"
    ].items()
    # nothing is allowed where nothing is named; None would be everything
    closed = provider_of()
    other = await _made(closed, new_id("sbx"))
    assert (
        cloud.boxes[other].asked["outbound_domain_allowlist"]
        == []
        == cloud.boxes[other].asked["outbound_cidr_allowlist"]
    )


async def test_a_deployment_sees_and_ends_its_own_only(cloud: Cloud) -> None:
    ours, theirs = provider_of(deployment="a"), provider_of(deployment="b")
    name = await _made(ours, new_id("sbx"))
    assert [info.id for info in await ours.list()] == [name] and await theirs.list() == []
    with pytest.raises(SandboxNotFound):
        await theirs.connect(name)
    await theirs.destroy(name)
    assert name in cloud.boxes
    # found by another process of this deployment, that the one of a row is left alone, and that nobody's goes
    again = provider_of(deployment="a")
    assert await SandboxService(again).reap([name]) == []
    assert await SandboxService(again).reap([]) == []  # young, and its owner lives
    pid, _, boot = cloud.boxes[name].asked["tags"]["koda_owner"].split(".", 2)
    cloud.boxes[name].asked["tags"]["koda_owner"] = f"{pid}.1.{boot}"  # an earlier process of that number
    assert await SandboxService(again).reap([]) == [name]
    assert not cloud.boxes


async def test_a_page_is_reached_through_its_tunnel(cloud: Cloud, node_modules: Path) -> None:
    (node_modules / "vite" / "bin").mkdir(parents=True)
    (node_modules / "vite" / "bin" / "vite.js").write_text(_SERVER)
    provider = provider_of()
    box = await provider.create(sandbox_id=new_id("sbx"), session_id="ses_a", user_id="usr_a")
    endpoint = await box.start_preview()
    assert endpoint.url is not None and endpoint == await box.start_preview()
    async with httpx.AsyncClient(timeout=60) as client:
        assert (await client.get(endpoint.url)).text == f"page of {endpoint.base}"
    # a command without the network reaches nobody, not even that
    alone = await box.run(("node", "-e", "fetch('http://127.0.0.1:5173').then(() => console.log('there'), () => 0)"))
    assert (alone.exit_code, alone.stdout) == (0, "")
    shared = await box.run(
        ("node", "-e", "fetch('http://127.0.0.1:5173').then(() => console.log('there'))"), network=True
    )
    assert shared.stdout == "there\n"
    taken = await box.start(
        "second", ("node", "node_modules/vite/bin/vite.js", "--port", "5173", "--host", "::"), network=True
    )
    assert taken.running
    await box.destroy()


async def test_nothing_of_root_is_left_to_a_command(cloud: Cloud) -> None:
    provider = provider_of()
    box = await provider.create(sandbox_id=new_id("sbx"), session_id="ses_a", user_id="usr_a")
    status = (await box.run(("cat", "/proc/self/status"))).stdout
    for line in status.splitlines():
        if line.startswith("Cap") and not line.startswith("CapBnd"):
            assert int(line.split()[1], 16) == 0, line
    assert "NoNewPrivs:\t1" in status
    await box.start("mark", ("sleep", "60"))
    for attack in (
        "ls /opt/koda/runs",
        "cat /opt/koda/processes/*/status",
        "node -e 'fs.writeFileSync(String.fromCharCode(47) + `opt/koda/x`, ``)'",
        "kill -9 -1; false",
    ):
        assert (await box.run(("sh", "-c", attack))).exit_code != 0, attack
        assert [one.running for one in await box.processes()] == [True], attack
    await box.destroy()


def _id_made(ago_s: int) -> str:
    """An id of then: it says when a sandbox was made."""
    name = new_id("sbx")
    made_ms = int(created_at_s(name) * 1000) - ago_s * 1000
    return f"sbx_{made_ms:012x}{name.removeprefix('sbx_')[12:]}"


async def test_it_cannot_live_longer_than_modal_lets_it(cloud: Cloud) -> None:
    provider = provider_of(lifetime_s=100)
    box = await provider.create(sandbox_id=_id_made(LONGEST_S - 500), session_id="ses_a", user_id="usr_a")
    assert await box.extend(200) > 190
    with pytest.raises(QuotaExceeded, match="checkpoint"):
        await box.extend(700)
    await box.destroy()


async def test_what_goes_wrong_is_said_in_our_words(cloud: Cloud) -> None:
    given = {"session_id": "ses_a", "user_id": "usr_a"}
    with pytest.raises(TemplateNotFound, match="koda image build --provider modal"):
        await provider_of(image="im-other").create(sandbox_id=new_id("sbx"), **given)
    assert not cloud.boxes
    with pytest.raises(SandboxError, match="MODAL_TOKEN_ID") as caught:
        await provider_of(app=app_of(token_secret="as-wrong-secret")).create(sandbox_id=new_id("sbx"), **given)
    assert "as-wrong-secret" not in caught.value.message
    with pytest.raises(InvalidInput):
        await provider_of().create(sandbox_id="x", **given)
    for error, kind, code in (
        (modal.exception.ResourceExhaustedError("9 of 9"), QuotaExceeded, "QUOTA_EXCEEDED"),
        (modal.exception.ConnectionError("reset"), SandboxError, "PROVIDER_ERROR"),
        (modal.exception.TimeoutError("slow"), SandboxError, "TIMEOUT"),
        (modal.exception.InternalError("5"), SandboxError, "PROVIDER_ERROR"),
    ):
        cloud.fails = error
        with pytest.raises(kind) as caught:
            await provider_of().create(sandbox_id=new_id("sbx"), **given)
        assert caught.value.code == code and caught.value.__cause__ is None
    with pytest.raises(SandboxNotFound), translated("look", sandbox_id="sbx_1", secrets=()):
        raise modal.exception.SandboxTerminatedError("gone")


def test_settings_say_what_is_lacking(monkeypatch: pytest.MonkeyPatch) -> None:
    def settings(**values: str) -> Settings:
        return Settings(SANDBOX_PROVIDER="modal", **values)  # pyright: ignore

    with pytest.raises(InvalidInput, match="MODAL_TOKEN_ID, MODAL_TOKEN_SECRET, MODAL_IMAGE"):
        settings()
    whole = settings(MODAL_TOKEN_ID=TOKEN, MODAL_TOKEN_SECRET=SECRET, MODAL_IMAGE="im-koda")
    assert isinstance(provider_from(whole, deployment="dep_test"), ModalProvider)
    with pytest.raises(Missing, match="koda image build --provider modal"):
        ModalProvider.of(whole.model_copy(update={"modal_image": None}), deployment="dep_test")


def test_the_image_is_made_of_the_same_dockerfile(template: Path, node_modules: Path) -> None:
    context = ImageContext(template=template, node_modules=node_modules)
    with context.folder() as folder:
        image = image_in(folder, base="debian:test")
        assert isinstance(image, modal.Image)
