"""Modules that cannot be imported without an SDK skip as a whole; where one has to be there, this says so instead."""

from __future__ import annotations

from tests import services

services.demand("gemini", "openai")
