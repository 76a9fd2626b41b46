"""``python -m koda_ray``: the CLI, which is also what the launcher hands over to.

The version is answered here, before anything is imported: it is what scripts ask first.
"""

import sys

from koda_ray import __version__

if __name__ == "__main__":
    if sys.argv[1:] in (["--version"], ["-V"]):
        sys.stdout.write(f"koda {__version__}\n")
        sys.exit(0)
    from koda_ray.cli import main

    main()
