"""koda_ray: a sentence becomes a finished animation, on one machine or on a Ray cluster."""

from importlib.metadata import PackageNotFoundError, version

__all__ = ["__version__"]

try:
    __version__ = version("koda-ray")
except PackageNotFoundError:  # a source tree that was never installed
    __version__ = "0.1.0"
