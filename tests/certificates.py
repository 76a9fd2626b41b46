"""One certificate in place of all that there are: each client reads them, for 30 ms, and no test asks the web."""

from __future__ import annotations

from pathlib import Path

import certifi

__all__ = ["one_certificate"]


def one_certificate(file: Path) -> dict[str, str]:
    """Write the file, and return the environment in which HTTP clients read no other."""
    end = "-----END CERTIFICATE-----\n"
    file.write_text(Path(certifi.where()).read_text().partition(end)[0] + end)
    return {"SSL_CERT_FILE": str(file)}
