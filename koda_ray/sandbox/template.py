"""The project that every sandbox starts as, unless an image of somebody's own is named."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from koda_ray.config import Settings

__all__ = ["TemplateProject"]


@dataclass(frozen=True, kw_only=True)
class TemplateProject:
    """A project with its packages.

    Args:
        folder: Its files (KODA_TEMPLATE_PATH).
        node_modules: Its installed packages (KODA_NODE_MODULES_PATH).
    """

    folder: Path
    node_modules: Path

    @classmethod
    def of(cls, settings: Settings) -> TemplateProject:
        """Read from settings where it lies."""
        return cls(folder=settings.template_path, node_modules=settings.node_modules_path)

    def absolute(self) -> TemplateProject:
        """Return it by absolute paths, which hold wherever this process goes."""
        return TemplateProject(folder=self.folder.absolute(), node_modules=self.node_modules.absolute())
