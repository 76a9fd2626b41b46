"""What the programs inside a sandbox are told of the way out."""

from __future__ import annotations

__all__ = ["EGRESS_PORT", "proxy_environment"]

EGRESS_PORT = 3128
"""Where the forwarder listens inside a sandbox that no other command shares, on its own loopback."""


def proxy_environment(port: int = EGRESS_PORT) -> dict[str, str]:
    """The variables by which programs inside find the way out; package managers, git, curl and Python read them."""
    proxy, direct = f"http://127.0.0.1:{port}", "localhost,127.0.0.1,::1"
    return {
        "HTTP_PROXY": proxy,
        "HTTPS_PROXY": proxy,
        "NO_PROXY": direct,
        "http_proxy": proxy,
        "https_proxy": proxy,
        "no_proxy": direct,
        "npm_config_proxy": proxy,
        "npm_config_https_proxy": proxy,
        "npm_config_noproxy": direct,
        "NODE_USE_ENV_PROXY": "1",
    }
