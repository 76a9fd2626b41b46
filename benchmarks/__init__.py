"""Figures, measured on this machine: never part of the tests, whose result must not depend on its speed."""
