"""Put the page in the browser into what is installed: whoever has the wheel needs neither npm nor the repository.

The page is what `./koda setup` built. Without it a wheel is made all the same, and says so; its server works.
"""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_BUILT = ".koda/web"
_PLACES = {"wheel": "koda_ray/page", "sdist": _BUILT}


class PageHook(BuildHookInterface[Any]):
    """Adds the built page, where there is one."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Name the page's files; a checkout that is used in place has them already."""
        if version == "editable":
            return
        page = Path(self.root) / _BUILT
        if (page / "index.html").is_file():
            build_data["force_include"][str(page)] = _PLACES[self.target_name]
        else:
            self.app.display_warning(f"without the page in the browser: {page} is not there; ./koda setup builds it")
