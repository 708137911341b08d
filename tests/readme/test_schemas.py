"""The JSON schemas in docs/schemas are those of the outputs as they are printed."""

import json

import pytest
from jsonschema import Draft202012Validator

from tools import tables


def test_the_schemas_of_the_repository_are_those_of_the_outputs():
    """`python -m tools.tables` writes them."""
    assert {path.name: path.read_text() for path in tables.SCHEMAS.iterdir()} == (
        tables.wanted_schemas()
    )


@pytest.mark.parametrize("name", sorted(tables.wanted_schemas()))
def test_a_schema_is_one(name: str):
    Draft202012Validator.check_schema(json.loads(tables.wanted_schemas()[name]))
