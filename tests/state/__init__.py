"""Tests of the state floor."""
