"""A director with a fixed vocabulary and no model inside, for machines without a key."""

from koda_ray.roles.offline.codegen import generate_files
from koda_ray.roles.offline.director import OfflineDirector
from koda_ray.roles.offline.plan import make_plan
from koda_ray.roles.offline.understand import parse_brief

__all__ = ["OfflineDirector", "generate_files", "make_plan", "parse_brief"]
