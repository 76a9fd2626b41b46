"""``python -m koda_ray.serve``: a server with the environment's settings, until it is told to stop."""

import sys

from koda_ray.serve.app import main

if __name__ == "__main__":
    sys.exit(main())
