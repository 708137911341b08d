"""The API server accepts the matchConditions that cost us most: nobody else keeps them away."""

import pytest

from tests.cases_loader import table
from tests.controlplane.client import ApiError
from tests.controlplane.plane import ControlPlane

PATH = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"


def register(plane: ControlPlane, expression: str) -> None:
    """A configuration whose rules match nothing, as a dry run."""
    body = {
        "metadata": {"name": "costly.example.org"},
        "webhooks": [
            {
                "name": "costly.example.org",
                "admissionReviewVersions": ["v1"],
                "clientConfig": {"url": "https://127.0.0.1:1/"},
                "sideEffects": "None",
                "matchConditions": [{"name": "costly", "expression": expression}],
            }
        ],
    }
    plane.client.post(f"{PATH}?dryRun=All", body)


@table("conditions/costly.yaml", "expression", "over", "costly")
def test_the_api_server_accepts_it(apiserver: ControlPlane, case) -> None:
    register(apiserver, case["expression"])


def test_what_does_not_compile_is_refused(apiserver: ControlPlane) -> None:
    with pytest.raises(ApiError, match="undeclared reference"):
        register(apiserver, "nope(object)")
