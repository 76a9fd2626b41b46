"""AWS as Ray's launcher meets it: each node type makes a request that EC2's own description of its API takes."""

from __future__ import annotations

from typing import Any

import boto3
import pytest
import yaml
from botocore.validate import ParamValidator

from tests.cluster.files import FOLDER

_ADDED_BY_RAY = {"ImageId": "ami-0", "MinCount": 1, "MaxCount": 1, "KeyName": "ray", "SecurityGroupIds": ["sg-0"]}
TYPES: dict[str, Any] = yaml.safe_load((FOLDER / "aws.yaml").read_text())["available_node_types"]


@pytest.fixture(scope="module")
def shape() -> Any:
    client = boto3.client("ec2", region_name="eu-central-1", aws_access_key_id="none", aws_secret_access_key="none")
    return client.meta.service_model.operation_model("RunInstances").input_shape


@pytest.mark.full
@pytest.mark.parametrize("name", TYPES)
def test_a_node_is_what_can_be_run(name: str, shape: Any) -> None:
    report = ParamValidator().validate(TYPES[name]["node_config"] | _ADDED_BY_RAY, shape)
    assert not report.has_errors(), report.generate_report()


@pytest.mark.full
def test_what_cannot_be_run_is_seen(shape: Any) -> None:
    wrong = TYPES["chromium"]["node_config"] | {"InstanceMarketOption": {"MarketType": "spot"}}
    assert "InstanceMarketOption" in ParamValidator().validate(wrong | _ADDED_BY_RAY, shape).generate_report()
