"""Put what is no Python into what is installed: whoever has the wheel needs neither npm nor the repository.

That is what every sandbox starts from, the template project with it, and the page in the browser as `./koda setup`
built it. Without the page a wheel is made all the same, and says so; its server works.
"""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_BUILT = ".koda/web"
_PLACES = {"wheel": "koda_ray/page", "sdist": _BUILT}
_IMAGE = "sandbox_image"
_NOT_PACKED = {"node_modules", "dist", ".vite"}


class PackedHook(BuildHookInterface[Any]):
    """Adds the image's folder and the built page, where there is one."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Name their files; a checkout that is used in place has them already."""
        if version == "editable":
            return
        root = Path(self.root)
        if self.target_name == "wheel":  # a source distribution has it as it is
            for path in sorted((root / _IMAGE).rglob("*")):
                inside = path.relative_to(root)
                if path.is_file() and _NOT_PACKED.isdisjoint(inside.parts):
                    build_data["force_include"][str(path)] = f"koda_ray/{inside.as_posix()}"
        page = root / _BUILT
        if (page / "index.html").is_file():  # a link to the build of now: those before it are for this machine's pages
            build_data["force_include"][str(page.resolve())] = _PLACES[self.target_name]
        else:
            self.app.display_warning(f"without the page in the browser: {page} is not there; ./koda setup builds it")
