"""What draws and encodes here: the processor, or a GPU that has proved itself; and which device files a GPU has.

Only names and files are looked at here. Whether a GPU works is found out by using it, in `koda_ray.render.gpu`.
"""

from __future__ import annotations

import re
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from koda_ray.render.frames import Interposer, interposer_digest
from koda_ray.render.isolation import refusal

__all__ = [
    "DEVICES",
    "DeviceFiles",
    "Graphics",
    "GraphicsChoice",
    "H264Encoder",
    "find_devices",
    "is_nvidia",
    "software_because",
    "software_graphics",
]

GraphicsChoice = Literal["auto", "software", "gpu"]
"""What ``KODA_RENDER_GRAPHICS`` asks for."""

H264Encoder = Literal["libx264", "h264_nvenc"]
"""Who encodes mp4."""

DEVICES = Path("/dev")
_EGL_VENDORS = ("/usr/share/glvnd/egl_vendor.d/50_mesa.json", "/etc/glvnd/egl_vendor.d/50_mesa.json")
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
        renderer: What draws, as WebGL says; empty for software, which is not asked.
        driver: The version of NVIDIA's driver; Mesa's is known by its files.
        devices: Device files that the browser's isolation gets.
        encoder: Who encodes mp4.
        interposer: How pictures come out raw, or why they come as JPEG.
        why: One line on how this was chosen.
    """

    kind: Literal["software", "gpu"]
    flags: tuple[str, ...]
    renderer: str = ""
    driver: str = ""
    devices: tuple[Path, ...] = ()
    encoder: H264Encoder = "libx264"
    interposer: Interposer = field(default_factory=Interposer)
    why: str = ""

    @property
    def identity(self) -> tuple[str, ...]:
        """What decides pixels and bytes besides flags and files."""
        drawn = () if self.kind == "software" else (self.kind, self.renderer, self.driver, self.encoder)
        return (*drawn, f"raw {interposer_digest()}") if self.interposer.library else drawn

    def __str__(self) -> str:
        """Say it in a line, for reports and for people."""
        if self.kind == "software":
            software = f"software ({self.why})" if self.why else "software"
            return f"{software}, {self.interposer}"
        driver = f", driver {self.driver}" if self.driver else ""
        return f"GPU {self.renderer}{driver}, {self.interposer}; mp4 with {self.encoder} ({self.why})"


def software_graphics(why: str = "") -> Graphics:
    """Return how WebGL and the compositor draw without a GPU.

    WebGL goes to Mesa's llvmpipe where it is installed: it takes about half of SwiftShader's time. A Chromium that was
    built without OpenGL cannot use it and takes its SwiftShader then, if it may. The compositor stays in software,
    because without a GPU it would only add a copy.
    """
    flags = ("--use-gl=angle", "--enable-unsafe-swiftshader", "--disable-gpu-compositing")
    if any(Path(vendor).exists() for vendor in _EGL_VENDORS):
        return Graphics(kind="software", flags=(*flags, "--use-angle=gl-egl", "--ignore-gpu-blocklist"), why=why)
    return Graphics(kind="software", flags=(*flags, "--use-angle=swiftshader"), why=why)


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
    return refusal(binary, path) if stat.S_ISCHR(mode) else "not a device file"


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
