"""Machines that are raylets: started by Ray's own autoscaler, or by a test, on the machine that the test runs on."""

from __future__ import annotations

from typing import Any

from ray.autoscaler._private.fake_multi_node.node_provider import FakeMultiNodeProvider

__all__ = ["OwnMachine"]


class OwnMachine(FakeMultiNodeProvider):
    """Ray's provider of nodes on one machine, for types that say their memory, which a raylet finds out by itself."""

    def create_node_with_resources_and_labels(
        self, node_config: Any, tags: Any, count: int, resources: dict[str, Any], labels: Any
    ) -> None:
        """Start raylets."""
        found = {name: amount for name, amount in resources.items() if name != "memory"}
        super().create_node_with_resources_and_labels(node_config, tags, count, found, labels)
