"""A bucket that speaks S3's protocol, on loopback."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from tests import services

__all__ = ["bucket_server"]


@contextmanager
def bucket_server(name: str) -> Generator[str]:
    """Serve one bucket, to whoever has the keys ``test`` and ``test``; yield its endpoint."""
    services.need("s3")
    import boto3
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    endpoint = f"http://{host}:{port}"
    client = boto3.client(
        "s3", endpoint_url=endpoint, aws_access_key_id="test", aws_secret_access_key="test", region_name="us-east-1"
    )
    client.create_bucket(Bucket=name)
    client.close()
    yield endpoint
    server.stop()
