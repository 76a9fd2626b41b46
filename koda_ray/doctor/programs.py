"""The programs that the main job starts: each is really run, because a program can be there and not work."""

from __future__ import annotations

import platform
import re
import sys

from koda_ray.doctor.finding import Examination, Finding
from koda_ray.render.programs import misnamed, name_of

__all__ = ["browser", "ffmpeg", "fonts", "node", "page", "playwright", "python", "template", "tmux"]

_GROUP = "Programs"
_IMPORT_S = 60.0  # it is large, and the first time it is compiled
_SETUP = "run ./koda setup"
_VITE_NEEDS = "Vite 8 needs node 20.19 or newer, or 22.12 or newer"
# Debian's names are scripts that read the environment; the binaries behind them are what a render starts.
_SHELLS = ("/usr/lib/chromium/chromium-headless-shell", "chromium-headless-shell", "chrome-headless-shell")
# Ubuntu's chromium-browser is not among them: it is a stub for a snap, which cannot run isolated.
_WHOLE_BROWSERS = ("/usr/lib/chromium/chromium", "/opt/google/chrome/chrome", "chromium", "google-chrome-stable")


def _install(package: str) -> str:
    return f"install the package {package} (Debian: apt-get install {package}), or {_SETUP}"


def python(examination: Examination) -> list[Finding]:
    """Check the interpreter, and that Ray can be imported by a new process."""
    version = platform.python_version()
    supported = (3, 11) <= sys.version_info[:2] <= (3, 14)
    findings = [
        Finding(_GROUP, "Python", "ok", f"{version} ({sys.executable})")
        if supported
        else Finding(_GROUP, "Python", "missing", version, "use Python 3.11 to 3.14")
    ]
    # -P, as always: modules never come from the folder that one happens to be in
    line = [sys.executable, "-P", "-c", "import ray, ray.serve; print(ray.__version__)"]
    ran = examination.run(line, timeout_s=_IMPORT_S)
    findings.append(
        Finding(_GROUP, "Ray", "ok", ran.last_line)
        if ran.ok
        else Finding(_GROUP, "Ray", "missing", f"cannot be imported: {ran.last_line}", _SETUP)
    )
    return findings


def node(examination: Examination) -> list[Finding]:
    """Check for a node that Vite takes."""
    program = examination.find("node")
    if program is None:
        return [Finding(_GROUP, "node", "missing", "not found on PATH", f"{_VITE_NEEDS}; {_SETUP} brings one")]
    ran = examination.run([program, "--version"])
    match = re.match(r"v(\d+)\.(\d+)", ran.output) if ran.ok else None
    if match is None:
        return [Finding(_GROUP, "node", "missing", f"{program} does not start: {ran.last_line}", _SETUP)]
    major, minor = int(match[1]), int(match[2])
    if (major == 20 and minor >= 19) or (major == 22 and minor >= 12) or major > 22:
        return [Finding(_GROUP, "node", "ok", f"{ran.last_line} ({program})")]
    return [Finding(_GROUP, "node", "missing", f"{ran.last_line} ({program})", f"{_VITE_NEEDS}; {_SETUP} brings one")]


def template(examination: Examination) -> list[Finding]:
    """Check for the project that every animation starts from, and its packages."""
    settings = examination.settings
    findings: list[Finding] = []
    packages = f"{_SETUP}; or npm ci --ignore-scripts in a copy of {settings.template_path}, and KODA_NODE_MODULES_PATH"
    for name, path, remedy in (
        ("template", settings.template_path / "package.json", "get the whole repository, or set KODA_TEMPLATE_PATH"),
        ("Vite", settings.node_modules_path / "vite" / "bin" / "vite.js", packages),
        ("Theatre", settings.node_modules_path / "@theatre" / "core" / "package.json", f"{_SETUP} again"),
    ):
        if path.is_file():
            findings.append(Finding(_GROUP, name, "ok", str(path)))
        else:
            findings.append(Finding(_GROUP, name, "missing", f"{path} is not there", remedy))
    return findings


def page(examination: Examination) -> list[Finding]:
    """Check for the page in the browser; without it the server and the command line do everything."""
    name, index = "page in the browser", examination.settings.web_path / "index.html"
    if index.is_file():
        return [Finding(_GROUP, name, "ok", f"{index.parent}; ./koda open shows it")]
    return [Finding(_GROUP, name, "warning", f"{index} is not there", f"{_SETUP}, or set KODA_WEB_PATH")]


def browser(examination: Examination) -> list[Finding]:
    """Check for a Chromium that starts: the headless shell, or a whole browser, which takes frames more slowly."""
    name = "Chromium"
    configured = examination.settings.chromium_path
    if configured is not None:
        ran = examination.run([str(configured), "--version"])
        if ran.ok:
            return [Finding(_GROUP, name, "ok", f"{ran.last_line} (KODA_CHROMIUM_PATH={configured})")]
        remedy = "name an executable headless shell, or leave KODA_CHROMIUM_PATH out"
        return [Finding(_GROUP, name, "missing", f"KODA_CHROMIUM_PATH={configured}: {ran.last_line}", remedy)]
    shell = examination.find(*_SHELLS)
    whole = examination.find(*_WHOLE_BROWSERS)
    if shell is None and whole is None:
        remedy = (
            "Debian: apt-get install chromium-headless-shell. Ubuntu has none: ./koda setup fetches Playwright's "
            "where the network is open. Or set KODA_CHROMIUM_PATH"
        )
        return [Finding(_GROUP, name, "missing", "no headless shell and no whole browser", remedy)]
    program = shell or whole or ""
    ran = examination.run([program, "--version"])
    if not ran.ok:
        remedy = "libraries may be missing: ./koda setup installs them, or install the package chromium-headless-shell"
        return [Finding(_GROUP, name, "missing", f"{program} does not start: {ran.last_line}", remedy)]
    if shell is None:
        remedy = "install chromium-headless-shell: it takes frames one by one, which is faster"
        return [Finding(_GROUP, name, "warning", f"{ran.last_line} ({program}), a whole browser", remedy)]
    return [Finding(_GROUP, name, "ok", f"{ran.last_line} ({program})")]


def playwright(examination: Examination) -> list[Finding]:
    """Check that Playwright's driver starts: it is a program of its own, with libraries of its own."""
    ran = examination.run([sys.executable, "-P", "-m", "playwright", "--version"])
    if ran.ok:
        return [Finding(_GROUP, "Playwright", "ok", ran.last_line)]
    remedy = "install the package libatomic1" if "libatomic" in ran.output else _SETUP
    return [Finding(_GROUP, "Playwright", "missing", f"the driver does not start: {ran.last_line}", remedy)]


def ffmpeg(examination: Examination) -> list[Finding]:
    """Check for FFmpeg, its probe, and the encoders that the formats need."""
    findings: list[Finding] = []
    for name in ("ffmpeg", "ffprobe"):
        program = examination.find(name_of(name))
        if program is None:
            detail, remedy = misnamed(name) or ("not found on PATH", _install("ffmpeg"))
            findings.append(Finding(_GROUP, name, "missing", detail, remedy))
            continue
        ran = examination.run([program, "-hide_banner", "-version"])
        if not ran.ok:
            detail = f"{program} does not start: {ran.last_line}"
            findings.append(Finding(_GROUP, name, "missing", detail, _install("ffmpeg")))
            continue
        version = re.search(r"version (\S+)", ran.output)
        findings.append(Finding(_GROUP, name, "ok", f"{version[1] if version else 'unknown'} ({program})"))
        if name == "ffmpeg":
            encoders = examination.run([program, "-hide_banner", "-encoders"]).output.split()
            findings += [
                _encoder("libx264", "mp4", encoders, required=True),
                _encoder("libvpx-vp9", "webm", encoders, required=False),
            ]
    return findings


def _encoder(name: str, container: str, encoders: list[str], *, required: bool) -> Finding:
    label = f"{container} ({name})"
    if name in encoders:
        return Finding(_GROUP, label, "ok", "can be encoded")
    remedy = f"use an FFmpeg that is built with {name}; Debian's and Ubuntu's are"
    return Finding(_GROUP, label, "missing" if required else "warning", f"this FFmpeg lacks {name}", remedy)


def tmux(examination: Examination) -> list[Finding]:
    """Check for tmux."""
    program = examination.find("tmux")
    if program is None:
        return [Finding(_GROUP, "tmux", "warning", "not found on PATH", _install("tmux"))]
    ran = examination.run([program, "-V"])
    if ran.ok:
        return [Finding(_GROUP, "tmux", "ok", f"{ran.last_line} ({program})")]
    return [Finding(_GROUP, "tmux", "warning", f"{program} does not start: {ran.last_line}", _install("tmux"))]


def fonts(examination: Examination) -> list[Finding]:
    """Check for fonts. The template brings its own, so these matter for other pages and rare scripts."""
    program = examination.find("fc-list")
    if program is None:
        return [Finding(_GROUP, "fonts", "warning", "fc-list not found on PATH", _install("fontconfig"))]
    findings: list[Finding] = []
    for name, pattern, package in (
        ("fonts", ":lang=en", "fonts-dejavu-core"),
        ("fonts for Chinese, Japanese, Korean", ":lang=ja:lang=ko:lang=zh-cn", "fonts-noto-cjk"),
        ("emoji", ":charset=1f973", "fonts-noto-color-emoji"),
    ):
        ran = examination.run([program, "-f", "%{family[0]}\n", pattern])
        families = sorted({line for line in ran.output.splitlines() if line}) if ran.ok else []
        if families:
            more = f" and {len(families) - 1} more" if len(families) > 1 else ""
            findings.append(Finding(_GROUP, name, "ok", f"{families[0]}{more}"))
        else:
            findings.append(Finding(_GROUP, name, "warning", "none", _install(package)))
    return findings
