"""What a cluster is started with: whether a file of it would work, before anything is started or paid for."""

from koda_ray.deploy.check import Checked, check_file
from koda_ray.deploy.defect import Defect

__all__ = ["Checked", "Defect", "check_file"]
