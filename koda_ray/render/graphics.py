"""What draws and encodes here: the processor, or a GPU that has proved itself; and which device files a GPU has.

Only names and files are looked at here. Whether a GPU works is found out by using it, in `koda_ray.render.gpu`.
"""

from __future__ import annotations

import re
import stat
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Literal

from koda_ray.render.frames import Interposer, interposer_digest
from koda_ray.render.isolation import device_refusal

__all__ = [
    "DEVICES",
    "IN_SOFTWARE",
    "RASTERIZERS",
    "DeviceFiles",
    "Graphics",
    "GraphicsChoice",
    "H264Encoder",
    "Rasterizer",
    "RasterizerName",
    "find_devices",
    "graphics_libraries",
    "is_nvidia",
    "lavapipe_driver",
    "software_because",
    "software_graphics",
]

RasterizerName = Literal["llvmpipe", "llvmpipe-128", "llvmpipe-512", "lavapipe", "swiftshader"]
"""Who draws WebGL on the processor."""

GraphicsChoice = Literal["auto", "software", "gpu"] | RasterizerName
"""What ``KODA_RENDER_GRAPHICS`` asks for; who names a rasterizer wants it and no GPU."""

H264Encoder = Literal["libx264", "h264_nvenc"]
"""Who encodes mp4."""

DEVICES = Path("/dev")
IN_SOFTWARE = "--disable-gpu-compositing"
"""The flag that leaves the page around a canvas to the browser, whoever draws in the canvas."""

_HELPERS = "LP_NUM_THREADS"
_MESA_PATTERNS = ("libgallium*.so*", "dri/swrast_dri.so", "libEGL_mesa.so*", "libvulkan_lvp.so", "libLLVM*.so*")
_LIBRARY_FOLDERS = (Path("/usr/lib/x86_64-linux-gnu"), Path("/usr/lib/aarch64-linux-gnu"), Path("/usr/lib64"))
_DRAW = re.compile(r"renderD\d+")
_NVIDIA_DRAW = re.compile(r"nvidia\d+")
_NVIDIA_MORE = ("nvidiactl", "nvidia-uvm", "nvidia-modeset")
_NONE = "no /dev/dri/renderD* and no /dev/nvidia[0-9]*"

# Mesa's and Chromium's own rasterizers, Windows' (which WSL shows), and what stands for nothing
_SOFTWARE = re.compile(
    r"llvmpipe|softpipe|swrast|swiftshader|lavapipe|software|basic render|gdi generic|mesa offscreen|\bnull\b", re.I
)
_MAKERS = re.compile(
    r"nvidia|geforce|quadro|tesla|nouveau|\bamd\b|\bati\b|radeon|intel|\bmali\b|panfrost|adreno|qualcomm|freedreno|"
    r"\bv3d\b|videocore|broadcom|apple|powervr|imagination|vivante|etnaviv|moore threads",
    re.I,
)
# a virtual machine's device: it names who draws on the host, or nobody
_VIRTUAL = re.compile(r"virgl|venus|svga3d|virtio", re.I)


@dataclass(frozen=True, kw_only=True)
class Graphics:
    """What a browser draws with, and what mp4 is encoded with; chosen once, the same for all of a video.

    Attributes:
        kind: Whether WebGL is drawn by a GPU.
        flags: The browser's flags.
        environment: The browser's environment, beside what every browser has.
        rasterizer: Who draws without a GPU; empty with one.
        refused: Who of those that draw without one was tried before and does not, each with why.
        renderer: What draws, as WebGL says; empty for software, which was asked once and is known by its files.
        driver: The version of NVIDIA's driver; Mesa's is known by its files.
        devices: Device files that the browser's isolation gets.
        encoder: Who encodes mp4.
        interposer: How pictures come out raw, or why they come as JPEG.
        why: One line on how this was chosen.
    """

    kind: Literal["software", "gpu"]
    flags: tuple[str, ...]
    environment: tuple[tuple[str, str], ...] = ()
    rasterizer: RasterizerName | Literal[""] = ""
    refused: tuple[tuple[RasterizerName, str], ...] = ()
    renderer: str = ""
    driver: str = ""
    devices: tuple[Path, ...] = ()
    encoder: H264Encoder = "libx264"
    interposer: Interposer = field(default_factory=Interposer)
    why: str = ""

    @property
    def identity(self) -> tuple[str, ...]:
        """What decides pixels and bytes besides flags and files."""
        drawn = tuple("=".join(each) for each in self.environment if each[0] != _HELPERS)
        if self.kind == "gpu":
            drawn += (self.kind, self.renderer, self.driver, self.encoder)
        return (*drawn, f"raw {interposer_digest()}") if self.interposer.library else drawn

    @property
    def draws_webgl(self) -> bool:
        """Whether pages see any WebGL."""
        return all(name != self.rasterizer for name, _ in self.refused)

    @property
    def helpers(self) -> int:
        """How many threads help to draw; 0 with whoever takes none."""
        return int(dict(self.environment).get(_HELPERS, "0"))

    def helped_by(self, threads: int) -> tuple[tuple[str, str], ...]:
        """Return the environment in which so many threads draw a picture; with none, the one that asks does.

        The picture is the same. Helpers wait for each other where all processors have a page to draw.
        """
        return tuple((name, str(threads)) if name == _HELPERS else (name, value) for name, value in self.environment)

    def __str__(self) -> str:
        """Say it in a line, for reports and for people."""
        if self.kind == "software":
            because = f" ({self.why})" if self.why else ""
            return f"software: {self.rasterizer}{because}, {self.interposer}"
        driver = f", driver {self.driver}" if self.driver else ""
        return f"GPU {self.renderer}{driver}, {self.interposer}; mp4 with {self.encoder} ({self.why})"


@dataclass(frozen=True, kw_only=True)
class Rasterizer:
    """A way to draw WebGL on the processor.

    Attributes:
        name: As people name it.
        flags: The browser's flags.
        environment: The browser's environment.
        renderer: What the name of who draws has in it, if it is this one: a browser that cannot takes another.
    """

    name: RasterizerName
    flags: tuple[str, ...]
    environment: tuple[tuple[str, str], ...] = ()
    renderer: str

    def stranger(self, renderer: str) -> str | None:
        """Return, in words, that somebody else draws; None where it is this one.

        Args:
            renderer: As WebGL's ``UNMASKED_RENDERER_WEBGL`` says.
        """
        return None if re.search(self.renderer, renderer) else f"{renderer or 'somebody without a name'} draws instead"


def lavapipe_driver() -> Path | None:
    """Return the file that describes Mesa's Vulkan driver for the processor, where it is installed."""
    return next(iter(sorted(Path("/usr/share/vulkan/icd.d").glob("lvp_icd*.json"))), None)


def _rasterizers() -> tuple[Rasterizer, ...]:
    # the compositor stays in software: with llvmpipe a page of HTML takes two to three times as long, one of WebGL 0.94
    common = ("--use-gl=angle", "--enable-unsafe-swiftshader", IN_SOFTWARE)
    mesa = (*common, "--use-angle=gl-egl", "--ignore-gpu-blocklist")
    vulkan = (*common, "--use-angle=vulkan", "--ignore-gpu-blocklist")
    driver = str(lavapipe_driver() or "/nowhere")
    alone = (_HELPERS, "0")

    def vectors(bits: int) -> tuple[tuple[str, str], ...]:
        return (alone, ("LP_NATIVE_VECTOR_WIDTH", str(bits)))

    return (
        Rasterizer(name="llvmpipe", flags=mesa, environment=(alone,), renderer="llvmpipe"),
        Rasterizer(name="llvmpipe-128", flags=mesa, environment=vectors(128), renderer=r"llvmpipe.*\b128 bits"),
        Rasterizer(name="llvmpipe-512", flags=mesa, environment=vectors(512), renderer=r"llvmpipe.*\b512 bits"),
        Rasterizer(
            name="lavapipe",
            flags=vulkan,
            environment=(alone, ("VK_DRIVER_FILES", driver), ("VK_ICD_FILENAMES", driver)),
            renderer="Vulkan.*llvmpipe",
        ),
        Rasterizer(name="swiftshader", flags=(*common, "--use-angle=swiftshader"), renderer="SwiftShader"),
    )


RASTERIZERS: dict[RasterizerName, Rasterizer] = {each.name: each for each in _rasterizers()}
"""All ways that are known, by name: Mesa's llvmpipe with the vectors that it chooses, and with narrower and wider ones;
the same through Vulkan; Chromium's own."""


def software_graphics(why: str = "", rasterizer: Rasterizer | None = None) -> Graphics:
    """Return how WebGL and the compositor draw without a GPU.

    Args:
        why: Why there is none, in words.
        rasterizer: Who draws; llvmpipe when None, in whose place a browser that cannot takes its own SwiftShader.
    """
    drawn_by = rasterizer or RASTERIZERS["llvmpipe"]
    return Graphics(
        kind="software",
        flags=drawn_by.flags,
        environment=drawn_by.environment,
        rasterizer=drawn_by.name,
        why=why,
    )


@dataclass(frozen=True)
class DeviceFiles:
    """Device files that a browser may open, and in words why it may not open others, or that there are none."""

    usable: tuple[Path, ...]
    why: str


def find_devices(binary: Path, folder: Path = DEVICES) -> DeviceFiles:
    """Look for a GPU's device files that the isolated browser may open. Starts nothing where there are none.

    Args:
        binary: The browser.
        folder: Where device files are.

    Raises:
        Missing: bubblewrap is not installed.
    """
    draw = [path for path in _listed(folder / "dri") if _DRAW.fullmatch(path.name)]
    draw += [path for path in _listed(folder) if _NVIDIA_DRAW.fullmatch(path.name)]
    if not draw:
        return DeviceFiles((), _NONE if folder == DEVICES else _NONE.replace(str(DEVICES), str(folder)))
    refused = {path: _refusal(binary, path) for path in draw}
    usable = [path for path in draw if refused[path] is None]
    if not usable:
        return DeviceFiles((), "; ".join(f"{path}: {why}" for path, why in refused.items()))
    if any(_NVIDIA_DRAW.fullmatch(path.name) for path in usable):
        more = (folder / name for name in _NVIDIA_MORE)
        usable += [path for path in more if path.exists() and _refusal(binary, path) is None]
    return DeviceFiles(tuple(usable), ", ".join(map(str, usable)))


def _listed(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:  # not there, or not ours to read
        return []


def _refusal(binary: Path, path: Path) -> str | None:
    try:
        mode = path.stat().st_mode
    except OSError as error:
        return error.strerror or str(error)
    return device_refusal(binary, path) if stat.S_ISCHR(mode) else "not a device file"


def software_because(renderer: str) -> str | None:
    """Return why a renderer is not taken for hardware; None when it is.

    Args:
        renderer: As WebGL's ``UNMASKED_RENDERER_WEBGL`` says.
    """
    if found := _SOFTWARE.search(renderer):
        return f"{found[0]} is software"
    if _MAKERS.search(renderer):
        return None
    found = _VIRTUAL.search(renderer)
    return f"{found[0]} does not say who draws" if found else "no maker of hardware that is known"


def is_nvidia(renderer: str) -> bool:
    """Whether the GPU is NVIDIA's, which may bring NVENC."""
    return "nvidia" in renderer.lower()


@cache
def graphics_libraries() -> str:
    """Name Mesa's libraries by their real file names and sizes: their versions without starting a browser."""
    found: set[str] = set()
    for folder in _LIBRARY_FOLDERS:
        for pattern in _MESA_PATTERNS:
            for path in folder.glob(pattern):
                real = path.resolve()
                if real.is_file():
                    found.add(f"{real.name}:{real.stat().st_size}")
    return " ".join([*sorted(found), _vector_width()])


def _vector_width() -> str:
    """Name the widest vectors of the processor: software graphics compile for them, and may round differently."""
    try:
        flags = Path("/proc/cpuinfo").read_text(errors="replace").partition("\nflags")[2].partition("\n")[0].split()
    except OSError:
        flags = []
    return next((name for name in ("avx512f", "avx2", "avx", "sse4_2") if name in flags), "baseline")
