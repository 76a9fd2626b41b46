"""A server that speaks E2B's protocols, for its real SDK: a control plane, machines, and a gateway in front of both.

Messages are the SDK's own generated types on both sides. Machines are real: each has namespaces, files and users of
its own, and runs what it is told; so a suite that passes here has run every command and moved every byte.
"""

from tests.sandbox.e2b_server.gateway import Fault
from tests.sandbox.e2b_server.server import API_KEY, E2BServer

__all__ = ["API_KEY", "E2BServer", "Fault"]
