"""Own images, sandboxes and processes at Modal, and its terminals: at the SDK's public surface, where all runs."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

pytest.importorskip("modal", reason="it comes with the extra modal")

from koda_ray.config import Settings
from koda_ray.errors import Missing, TemplateNotFound
from koda_ray.sandbox.modal import ModalProvider
from koda_ray.sandbox.modal_sandbox import ModalSandbox
from koda_ray.sandbox.providers import Providers
from koda_ray.sandbox.workshop import Workshop
from koda_ray.state.json_store import JSONStore
from tests.sandbox.e2b import Ids
from tests.sandbox.e2b_server.machine import TemplateImage
from tests.sandbox.modal_cloud import SECRET, TOKEN, Cloud
from tests.sandbox.terminals import TerminalConformance, shown
from tests.sandbox.workshops import BuildsConformance, World

pytestmark = [
    pytest.mark.full,
    pytest.mark.sandbox,
    pytest.mark.needs("e2b", "tmux"),
]  # whose machines stand for Modal's


@pytest.fixture
async def cloud(template: Path, node_modules: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Cloud]:
    with tempfile.TemporaryDirectory(prefix="koda-modal-", dir="/tmp") as folder:  # short: sockets lie in it
        Path(folder).chmod(0o711)
        made = Cloud(Path(folder), {"im-koda": TemplateImage(template, node_modules)})
        made.install(monkeypatch)
        yield made
        await made.close()


@pytest.fixture
def settings(cloud: Cloud, tmp_path: Path) -> Settings:
    return Settings.model_validate(
        {
            "SANDBOX_PROVIDER": "modal", "MODAL_TOKEN_ID": TOKEN, "MODAL_TOKEN_SECRET": SECRET,
            "MODAL_IMAGE": "im-koda", "SANDBOX_PATH": tmp_path / "boxes", "DATABASE_PATH": tmp_path / "koda.db",
        }
    )  # fmt: skip


class TestModalTerminals(TerminalConformance):
    """Every command runs in a machine of its own; the SDK's place is taken at its public surface."""

    @pytest.fixture
    def leftovers(self) -> Ids:
        return Ids()

    @pytest.fixture
    async def provider(self, settings: Settings, cloud: Cloud) -> AsyncIterator[ModalProvider]:
        made = ModalProvider.of(settings, deployment="dep_of_tests")
        yield made
        assert await made.list() == [] and not cloud.boxes


class _World:
    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud

    @property
    def sandboxes(self) -> list[str]:
        return list(self._cloud.boxes)

    async def end(self, sandbox_id: str) -> None:
        await self._cloud.boxes[sandbox_id].end()

    def forget_image(self, provider_id: str) -> None:
        del self._cloud.images[self._cloud.names[provider_id]]  # its name stays


class TestModalWorkshop(BuildsConformance):
    """The same."""

    @pytest.fixture
    def world(self, cloud: Cloud) -> World:
        return _World(cloud)

    async def test_a_sandbox_of_another_version_is_given_this_ones_helper(self, ann: Workshop, cloud: Cloud) -> None:
        box = await ann.create_sandbox()
        [helper] = (cloud.folder / box.id / "opt" / "koda").glob("*.pyz")
        helper.unlink()
        opened = await ann.connect(box.id)
        assert (await opened.read_file("package.json")).startswith(b"{")
        helper.unlink()
        await ann.launch(box.id, "shell", "echo up; exec sh")
        terminal = await ann.attach(box.id, "shell", rows=24, columns=80)
        await shown(terminal, b"up")
        await terminal.close()

    async def test_whoever_connects_to_one_of_an_own_image_is_told_of_that_image(
        self, ann: Workshop, settings: Settings, store: JSONStore, project: Path
    ) -> None:
        image = await ann.create_image(project)
        boxes = [await ann.create_sandbox(image.id), await ann.create_sandbox()]
        later = Providers(settings, store)  # as another program finds them
        opened = [await (await later.get("modal")).connect(box.id) for box in boxes]
        said = [str(one.image.unusable("it lacks python3")) for one in opened if isinstance(one, ModalSandbox)]
        assert str(image.provider_id) in said[0] and "koda image create --provider modal" in said[0]
        assert "im-koda" in said[1] and "koda image build --provider modal" in said[1]
        for box in boxes:
            await ann.terminate(box.id)
        await later.close()

    async def test_what_modal_lacks_is_said_with_the_way_out(self, settings: Settings, store: JSONStore) -> None:
        without = Providers(settings.model_copy(update={"modal_image": None}), store)
        ann = Workshop(store, without, user_id="ann")
        with pytest.raises(Missing, match="koda image build --provider modal"):
            await ann.create_sandbox()
        lost = Providers(settings.model_copy(update={"modal_image": "im-lost"}), store)
        with pytest.raises(TemplateNotFound, match=r"im-lost.*MODAL_IMAGE"):
            await Workshop(store, lost, user_id="ann").create_sandbox()
