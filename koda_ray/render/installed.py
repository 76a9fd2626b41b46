"""What a browser reads of the folder that it is installed in: named files, and nothing that happens to lie beside them.

A browser that was unpacked somewhere brings its data and libraries along, and seeks them beside itself. Where that is
somebody's home, keys and notes lie there too.

Source: Chrome for Testing's archives, and Debian's package ``chromium``.
"""

from __future__ import annotations

from pathlib import Path

__all__ = ["browser_files"]

_FILES = (
    "*.pak",
    "icudtl.dat",
    "snapshot_blob.bin",
    "v8_context_snapshot*.bin",
    "lib*.so",
    "lib*.so.[0-9]*",
    "vk_swiftshader_icd.json",
    "chrome*",  # what starts it may be a script, and what gathers its crashes a program of its own
    "chromium*",
    "headless_shell*",
)
_FOLDERS = {"locales": "*.pak", "hyphen-data": "hyph-*.hyb"}


def browser_files(binary: Path) -> list[Path]:
    """Return the files that a browser is made of, below the folder of its program and the one where that really lies.

    Args:
        binary: The program, which is one of them.
    """
    found = [binary, binary.resolve()]
    for folder in dict.fromkeys(path.parent for path in found):
        found += [path for name in _FILES for path in folder.glob(name) if path.is_file()]
        found += [path for name, kind in _FOLDERS.items() for path in (folder / name).glob(kind) if path.is_file()]
    return sorted(set(found))
