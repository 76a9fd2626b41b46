"""One module a subject: adding one is all it takes, since each is imported by lying here."""

from __future__ import annotations

import importlib
import pkgutil

from koda_ray.roles.offline.subject import REGISTER, Subject

__all__ = ["all_subjects"]

for _module in sorted(module.name for module in pkgutil.iter_modules(__path__)):
    importlib.import_module(f"{__name__}.{_module}")


def all_subjects() -> tuple[Subject, ...]:
    """Return every subject that a film can have."""
    return tuple(REGISTER.values())
