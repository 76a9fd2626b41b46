"""The local provider under the suite of all providers, with hard limits and the watchdog's; ``test_bare``: none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from koda_ray.sandbox.limits import ResourceLimits
from koda_ray.sandbox.local import LocalProvider
from koda_ray.sandbox.template import TemplateProject
from tests.sandbox.conformance import SandboxConformance

pytestmark = pytest.mark.sandbox


class TestLocal(SandboxConformance):
    """As this machine and user allow it."""


@pytest.mark.full
class TestLocalWithoutGroupsAndMounts(SandboxConformance):
    """As a user finds it who may neither mount nor make control groups."""

    @pytest.fixture
    def provider(self, boxes: Path, template: Path, node_modules: Path, limits: ResourceLimits) -> LocalProvider:
        return LocalProvider(
            root=boxes,
            template=TemplateProject(folder=template, node_modules=node_modules),
            limits=replace(limits, soft=True),
        )
