"""The doctor: whether this machine can do the main job, and what to do where it cannot.

It starts nothing that stays: every check reads a version, opens a file or runs one short program, all at the same
time, so the whole examination takes a few seconds and needs neither Ray nor a server.
"""

from koda_ray.doctor.examination import CHECKS, examine, run
from koda_ray.doctor.finding import Check, Examination, Finding, Status

__all__ = ["CHECKS", "Check", "Examination", "Finding", "Status", "examine", "run"]
