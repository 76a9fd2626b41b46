"""An image of a node that is made in a second, as `cluster/Dockerfile` makes it but for what would be installed.

Its files are the few that differ from one machine to the next; all that is large is this machine's own, which the
container mounts: programs and libraries, Python, and the repository where the image has it.
"""

from __future__ import annotations

import io
import re
import shlex
import subprocess
import sys
import tarfile
from pathlib import Path

from koda_ray.config import REPO_ROOT

__all__ = ["USER_ID", "import_image", "mounts"]

USER_ID = 1000
"""Who runs everything in the image, as who is made first on a Debian."""
_USER, _PLACE = "koda", "/opt/koda"
_DOCKERFILE = REPO_ROOT / "cluster" / "Dockerfile"
_MERGED = ("bin", "lib", "lib32", "lib64", "sbin")
_EMPTY = ("dev", "proc", "root", "run", "sys", "usr", "opt/koda", "var/cache/fontconfig")
_OPEN = ("tmp", "var/tmp")
_OWN = (f"home/{_USER}", "var/lib/koda", "tmp/ray", "etc/koda")
_SETTINGS = (
    "alternatives", "bash.bashrc", "chromium", "chromium.d", "fonts", "ld.so.cache", "ld.so.conf", "ld.so.conf.d",
    "localtime", "mime.types", "nsswitch.conf", "profile", "protocols", "services", "ssl",
)  # fmt: skip
"""What of ``/etc`` Debian's packages put there that are in the image."""
_ACCOUNTS = {
    "passwd": f"root:x:0:0:root:/root:/bin/bash\n{_USER}:x:{USER_ID}:{USER_ID}::/home/{_USER}:/bin/bash\n",
    "group": f"root:x:0:\ntty:x:5:\n{_USER}:x:{USER_ID}:\n",
}


def import_image(name: str, socket: Path, folder: Path) -> None:
    """Give an engine the image.

    Args:
        name: What it is called.
        socket: Where the engine listens.
        folder: Where its archive is made, once for all engines.
    """
    archive = folder / "node.tar"
    if not archive.exists():
        with tarfile.open(archive, "w") as made:
            _write(made)
    changes = [
        *(f"ENV {key}={value}" for key, value in _environment().items()),
        f"ENV PYTHONPATH={_PLACE}",  # Python's packages are elsewhere here, and know another place
        f"USER {_USER}", f"WORKDIR {_PLACE}", 'CMD ["bash"]',
    ]  # fmt: skip
    options = [word for change in changes for word in ("--change", change)]
    subprocess.run(
        ["docker", "--host", f"unix://{socket}", "import", *options, str(archive), name], check=True,
        stdout=subprocess.DEVNULL,
    )  # fmt: skip


def mounts() -> list[str]:
    """Return the options of ``docker run`` with which a container of the image has the rest."""
    python, packages = Path(sys.base_prefix).resolve(), (REPO_ROOT / ".koda").resolve()
    assert Path(sys.prefix).resolve() == packages / "venv", f"{sys.prefix} is not what ./koda setup makes"
    # the repository stands in two places: where the image has it, and where what is installed in it says that it is
    there = [("/usr", "/usr"), ("/var/cache/fontconfig", "/var/cache/fontconfig"), (str(REPO_ROOT), _PLACE)]
    there += [(str(path), str(path)) for path in (REPO_ROOT, packages, python) if not path.is_relative_to("/usr")]
    return [f"-v {source}:{target}:ro" for source, target in there if Path(source).exists()]


def _environment() -> dict[str, str]:
    """What the image's file sets."""
    text = _DOCKERFILE.read_text().replace("\\\n", " ")
    (line,) = re.findall(r"^ENV (.*)$", text, re.MULTILINE)
    return {name: value for name, _, value in (word.partition("=") for word in shlex.split(line))}


def _copied() -> dict[str, Path]:
    """Files of the repository that the image's file puts into its ``/etc``."""
    lines = re.findall(r"^COPY (\S+) /(etc/\S+)$", _DOCKERFILE.read_text(), re.MULTILINE)
    return {target: REPO_ROOT / source for source, target in lines}


def _write(archive: tarfile.TarFile) -> None:
    for name in _EMPTY:
        _folder(archive, name, 0o755)
    for name in _OPEN:
        _folder(archive, name, 0o1777)
    for name in _OWN:
        _folder(archive, name, 0o755, owner=USER_ID)
    for name in _MERGED:
        link = tarfile.TarInfo(name)
        link.type, link.linkname = tarfile.SYMTYPE, f"usr/{name}"
        archive.addfile(link)
    for name in _SETTINGS:
        if (path := Path("/etc", name)).exists():
            archive.add(path, f"etc/{name}")
    for name in (".bashrc", ".profile"):
        archive.add(f"/etc/skel/{name}", f"home/{_USER}/{name}")
    for name, text in _ACCOUNTS.items():
        _file(archive, f"etc/{name}", text.encode())
    for name, path in _copied().items():
        _file(archive, name, path.read_bytes())


def _folder(archive: tarfile.TarFile, name: str, mode: int, *, owner: int = 0) -> None:
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode, entry.uid, entry.gid = tarfile.DIRTYPE, mode, owner, owner
    archive.addfile(entry)


def _file(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(data), 0o644
    archive.addfile(entry, io.BytesIO(data))
