"""Objects that an API server stores, and that are nested too deep for a decoder in Python."""

import json
from typing import Any, Final

from tests.controlplane.plane import ControlPlane

LEVELS: Final = 1_500


def create_deep(plane: ControlPlane, body: dict[str, Any], namespace: str) -> None:
    """Create an object with LEVELS levels of owned fields."""
    fields = '{"f:a":' * LEVELS + "{}" + "}" * LEVELS
    owner = {
        "manager": "somebody",
        "operation": "Update",
        "apiVersion": body["apiVersion"],
        "fieldsType": "FieldsV1",
        "fieldsV1": "DEEP",
    }
    metadata = {**body["metadata"], "namespace": namespace, "managedFields": [owner]}
    text = json.dumps({**body, "metadata": metadata}).replace('"DEEP"', fields)
    plane.kubectl("create", "--validate=false", "-f", "-", stdin=text)
