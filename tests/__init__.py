"""Tests of koda_ray, through real parts."""
