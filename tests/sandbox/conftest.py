"""A provider on a small template, one on the real template, and a close look at what each test leaves behind."""

from __future__ import annotations

import asyncio
import io
import os
import subprocess
import tarfile
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from koda_ray.config import Settings
from koda_ray.sandbox.docker import DockerProvider
from koda_ray.sandbox.docker_plan import ContainerPlan
from koda_ray.sandbox.docker_sandbox import DockerSandbox
from koda_ray.sandbox.engine import Engine
from koda_ray.sandbox.image import SLIM_PACKAGES, ImageContext, build_image
from koda_ray.sandbox.limits import ResourceLimits
from koda_ray.sandbox.local import LocalProvider
from koda_ray.sandbox.local_sandbox import LocalSandbox
from koda_ray.sandbox.template import TemplateProject
from tests import services, tiers
from tests.sandbox.leftovers import DockerLeftovers, Leftovers
from tests.services import HEADLESS_SHELL

pytest.register_assert_rewrite(
    *(
        f"tests.sandbox.{name}"
        for name in ("conformance", "project_conformance", "egress.conformance", "terminals", "workshops")
    )
)

MB = 1024 * 1024
_TEMPLATE = {
    "package.json": '{"name": "demo", "private": true, "scripts": {"hello": "echo hello from a script"}}\n',
    "src/App.tsx": "export default function App() {\n  return null;\n}\n",
    "src/scenes/one.tsx": "export const one = 1;\n",
    "public/logo.svg": "<svg/>\n",
}


def write_template(root: Path) -> Path:
    """Write the small project that sandboxes of these tests start as."""
    for name, text in _TEMPLATE.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (root / "node_modules").mkdir()
    (root / "node_modules" / "not-copied.js").write_text("")
    return root


def write_packages(root: Path) -> Path:
    """Write the one package that it uses."""
    (root / "left-pad").mkdir(parents=True)
    (root / "left-pad" / "index.js").write_text("module.exports = (text) => ` ${text}`;\n")
    return root


@pytest.fixture
def template(tmp_path: Path) -> Path:
    return write_template(tmp_path / "template")


@pytest.fixture
def node_modules(tmp_path: Path) -> Path:
    return write_packages(tmp_path / "packages" / "node_modules")


def small_limits() -> ResourceLimits:
    """Limits that are quick to reach."""
    return ResourceLimits(memory_bytes=512 * MB, pids=64, disk_bytes=64 * MB, scratch_bytes=16 * MB)


@pytest.fixture
def limits() -> ResourceLimits:
    return small_limits()


@pytest.fixture
def boxes(tmp_path: Path) -> Path:
    return tmp_path / "boxes"


def database_of(boxes: Path) -> Path:
    """Where the database would be that goes with such a folder."""
    return boxes.parent / "koda.db"


@pytest.fixture
def provider(boxes: Path, template: Path, node_modules: Path, limits: ResourceLimits) -> LocalProvider:
    return LocalProvider(
        root=boxes,
        template=TemplateProject(folder=template, node_modules=node_modules),
        limits=limits,
        database=database_of(boxes),
    )


@pytest.fixture
async def sandbox(provider: LocalProvider, leftovers: Leftovers) -> AsyncIterator[LocalSandbox]:
    made = await provider.create(sandbox_id=leftovers.new_id(), session_id="ses_test", user_id="usr_test")
    yield made
    await made.destroy()


@pytest.fixture
async def project_box(boxes: Path, leftovers: Leftovers) -> AsyncIterator[LocalSandbox]:
    """A sandbox of the real template, with its packages."""
    settings = Settings()
    provider = LocalProvider(
        root=boxes, template=TemplateProject(folder=settings.template_path, node_modules=settings.node_modules_path)
    )
    made = await provider.create(sandbox_id=leftovers.new_id(), session_id="ses_test", user_id="usr_test")
    yield made
    await made.destroy()


def assert_closed(most: int) -> None:
    """Fail where this process keeps more file descriptors than so many; threads that end have some for a moment."""
    deadline = time.monotonic() + 30
    while len(os.listdir("/proc/self/fd")) > most:
        assert time.monotonic() < deadline, "file descriptors are left open"
        time.sleep(0.05)


@pytest.fixture
def leftovers(boxes: Path) -> Iterator[Leftovers]:
    """Ids of sandboxes; fails the test that leaves anything of theirs on the machine."""
    descriptors = len(os.listdir("/proc/self/fd"))
    left = Leftovers(boxes)
    yield left
    assert left.find() == []
    assert_closed(descriptors + 1)


# Docker

AnyProvider = LocalProvider | DockerProvider
AnySandbox = LocalSandbox | DockerSandbox


# what holds of both is shown of the local one, and of Docker with everything
_LOCAL_AND_DOCKER = ["local", pytest.param("docker", marks=[pytest.mark.needs("docker"), pytest.mark.full])]
_GVISOR = pytest.param("gvisor", marks=[pytest.mark.needs("docker", "gvisor"), pytest.mark.full])
gvisor_too = pytest.mark.parametrize("kind", [*_LOCAL_AND_DOCKER, _GVISOR], indirect=True)
gvisor_alone = pytest.mark.parametrize("kind", [_GVISOR], indirect=True)


@pytest.fixture(params=_LOCAL_AND_DOCKER)
def kind(request: pytest.FixtureRequest) -> str:
    """The provider of a test that runs with each; ``gvisor_too`` adds Docker under gVisor."""
    return str(request.param)


@dataclass(frozen=True)
class Base:
    """What images start from."""

    name: str
    packages: tuple[str, ...] = ()


@pytest.fixture(scope="session")
def docker_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An engine of the tests' own."""
    from tests import dockerd

    with dockerd.started(tmp_path_factory.mktemp("dockerd")) as address:
        yield address


@pytest.fixture(scope="session")
def docker_base(docker_address: str, pytestconfig: pytest.Config) -> Base:
    """The base of the engine's images: Debian's with everything, else one of this machine's programs."""
    from tests import dockerd

    engine, whole = (
        Engine(docker_address),
        tiers.is_everything(pytestconfig) and services.why_missing("debootstrap") is None,
    )
    try:
        (dockerd.give_base if whole else dockerd.give_small_base)(engine)
    finally:
        asyncio.run(engine.close())
    return Base(dockerd.BASE_IMAGE, SLIM_PACKAGES) if whole else Base(dockerd.SMALL_BASE_IMAGE)


@pytest.fixture(scope="session")
def docker_image(docker_address: str, docker_base: Base, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The image of the small template."""
    folder = tmp_path_factory.mktemp("image")
    template, packages = write_template(folder / "template"), write_packages(folder / "node_modules")
    return built_image(docker_address, docker_base, "koda-test/small:1", template, packages)


@pytest.fixture(scope="session")
def project_image(docker_address: str, docker_base: Base) -> str:
    """The image of the real template, with its packages."""
    settings = Settings()
    return built_image(
        docker_address, docker_base, "koda-test/project:1", settings.template_path, settings.node_modules_path
    )


@pytest.fixture(scope="session")
def browser_image(docker_address: str, project_image: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The image of the real template, with this machine's Chromium: the whole image's takes minutes to install."""
    services.need("headless_shell")
    drawing = [_CHROMIUM / name for name in ("libEGL.so", "libGLESv2.so", "libvulkan.so.1", "libvk_swiftshader.so")]
    linked = subprocess.run(["ldd", HEADLESS_SHELL, *drawing], capture_output=True, text=True, check=True).stdout
    libraries = sorted({Path(words[2]) for line in linked.splitlines() if len(words := line.split()) > 3})
    libraries += [path for library in libraries if library.name == "libnss3.so" for path in _nss(library.parent)]
    context = tmp_path_factory.mktemp("browser") / "context.tar"
    with tarfile.open(context, "w", dereference=True) as tar:
        for name, text in (
            ("Dockerfile", f"FROM {project_image}\nCOPY root /\n"),
            (f"root{HEADLESS_SHELL}", _START),
        ):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(text), 0o755
            tar.addfile(entry, io.BytesIO(text.encode()))
        tar.add(HEADLESS_SHELL, f"root{_CHROMIUM}/shell")
        for path in (
            *drawing,
            *(path for kind in ("*.pak", "*.dat", "*.bin", "*.json") for path in _CHROMIUM.glob(kind)),
        ):
            tar.add(path, f"root{path}")
        # a Chromium without any font of the system's shows no other's either
        for path in (_FONTS, subprocess.run(_ANY_FONT, capture_output=True, text=True, check=True).stdout):
            tar.add(path, f"root{path}")
        for path in libraries:
            if not path.name.startswith(_OF_LIBC):
                tar.add(path, f"root{_CHROMIUM}/libraries/{path.name}")
    engine, tag = Engine(docker_address), "koda-test/browser:1"
    try:
        with context.open("rb") as file:
            engine.use(
                lambda api: list(api.build(fileobj=file, custom_context=True, tag=tag, rm=True, network_mode="none")),
                doing="build an image",
            )
    finally:
        asyncio.run(engine.close())
        context.unlink()
    return tag


_CHROMIUM = HEADLESS_SHELL.parent
_FONTS = "/etc/fonts"
_ANY_FONT = ("fc-match", "-f", "%{file}", "sans")
_START = f'#!/bin/sh\nLD_LIBRARY_PATH={_CHROMIUM}/libraries exec {_CHROMIUM}/shell "$@"\n'
_OF_LIBC = ("libc.so", "libm.so", "libdl.so", "libpthread.so", "librt.so", "libresolv.so", "ld-linux")


def _nss(folder: Path) -> list[Path]:
    """What NSS loads by itself."""
    return [path for name in ("softokn3", "freebl3", "freeblpriv3") for path in folder.glob(f"**/lib{name}.so")]


def built_image(address: str, base: Base, tag: str, template: Path, packages: Path) -> str:
    """Build the image of a template and its packages; returns its name."""
    engine = Engine(address)
    try:
        context = ImageContext(template=template, node_modules=packages, packages=base.packages)
        build_image(engine, context, base=base.name, tag=tag)
    finally:
        asyncio.run(engine.close())
    return tag


@pytest.fixture
def docker_leftovers(boxes: Path, docker_address: str) -> Iterator[DockerLeftovers]:
    """As ``leftovers``, of containers."""
    descriptors = len(os.listdir("/proc/self/fd"))
    left = DockerLeftovers(boxes, docker_address)
    yield left
    assert left.find() == []
    assert_closed(descriptors + 1)


@pytest.fixture
async def docker_provider(
    boxes: Path, docker_address: str, docker_image: str, limits: ResourceLimits, docker_leftovers: DockerLeftovers
) -> AsyncIterator[DockerProvider]:
    plan = ContainerPlan(limits=limits, database=database_of(boxes))
    provider = DockerProvider(root=boxes, image=docker_image, plan=plan, address=docker_address)
    yield provider
    await provider.close()


@pytest.fixture
async def gvisor_provider(
    boxes: Path, docker_address: str, docker_image: str, limits: ResourceLimits, docker_leftovers: DockerLeftovers
) -> AsyncIterator[DockerProvider]:
    plan = ContainerPlan(limits=limits, runtime="runsc", private=(str(database_of(boxes)),))
    provider = DockerProvider(root=boxes, image=docker_image, plan=plan, address=docker_address)
    yield provider
    await provider.close()


@pytest.fixture
async def docker_box(
    docker_provider: DockerProvider, docker_leftovers: DockerLeftovers
) -> AsyncIterator[DockerSandbox]:
    name = docker_leftovers.new_id()
    made = await docker_provider.create(sandbox_id=name, session_id="ses_test", user_id="usr_test")
    yield made
    await made.destroy()


@pytest.fixture
async def docker_browser(
    boxes: Path, docker_address: str, browser_image: str, docker_leftovers: DockerLeftovers
) -> AsyncIterator[DockerSandbox]:
    """A container of the real template, with a Chromium in it."""
    async with _container(boxes, docker_address, browser_image, docker_leftovers) as made:
        yield made


@pytest.fixture
async def gvisor_browser(
    boxes: Path, docker_address: str, browser_image: str, docker_leftovers: DockerLeftovers
) -> AsyncIterator[DockerSandbox]:
    """As ``docker_browser``, under gVisor."""
    async with _container(boxes, docker_address, browser_image, docker_leftovers, runtime="runsc") as made:
        yield made


@pytest.fixture
async def docker_project_box(
    boxes: Path, docker_address: str, project_image: str, docker_leftovers: DockerLeftovers
) -> AsyncIterator[DockerSandbox]:
    """A container of the real template."""
    async with _container(boxes, docker_address, project_image, docker_leftovers) as made:
        yield made


@asynccontextmanager
async def _container(
    boxes: Path, address: str, image: str, leftovers: DockerLeftovers, *, runtime: str | None = None
) -> AsyncGenerator[DockerSandbox]:
    provider = DockerProvider(root=boxes, image=image, plan=ContainerPlan(runtime=runtime), address=address)
    made = await provider.create(sandbox_id=leftovers.new_id(), session_id="ses_test", user_id="usr_test")
    yield made
    await made.destroy()
    await provider.close()
