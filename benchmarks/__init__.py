"""Figures, measured on this machine: never part of the tests, whose result must not depend on its speed.

What Python compiles is kept, as `./koda` has it: else each process that starts, Ray's workers among them, compiles all
that it loads, and figures of starting are figures of compiling.
"""

import os
import sys

if os.environ.pop("PYTHONDONTWRITEBYTECODE", None):
    sys.dont_write_bytecode = False
