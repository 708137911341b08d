"""Statuses that a controller might report, by the schema of a kind."""

import pytest

from genguard.converge.status_samples import status_samples

CONDITION = {
    "type": "object",
    "properties": {
        "type": {"type": "string"},
        "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
        "observedGeneration": {"type": "integer"},
        "lastTransitionTime": {"type": "string", "format": "date-time"},
    },
}
OF_A_CONDITION = [
    {
        "type": text,
        "status": status,
        "observedGeneration": 4,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    for text, status in (("Example", "True"), ("Another", "False"))
]
SCHEMAS = {"Inner": {"type": "object", "properties": {"ready": {"type": "boolean"}}}}


@pytest.mark.parametrize(
    ("schema", "first", "second"),
    [
        ({"type": "object"}, {}, {}),
        (
            {"type": "object", "properties": {"observedGeneration": {"type": "integer"}}},
            {"observedGeneration": 4},
            {"observedGeneration": 4},
        ),
        (
            {"type": "object", "properties": {"conditions": {"type": "array", "items": CONDITION}}},
            {"conditions": OF_A_CONDITION[:1]},
            {"conditions": OF_A_CONDITION[1:]},
        ),
        (
            {"type": "object", "additionalProperties": {"type": "integer"}},
            {"example": 1},
            {"example": 2},
        ),
        (
            {"properties": {"inner": {"allOf": [{"$ref": "#/components/schemas/Inner"}]}}},
            {"inner": {"ready": True}},
            {"inner": {"ready": False}},
        ),
        (
            {"properties": {"port": {"x-kubernetes-int-or-string": True}, "free": {}}},
            {"port": 1},
            {"port": 2},
        ),
    ],
    ids=["nothing", "generation", "conditions", "map", "reference", "int-or-string"],
)
def test_each_declared_field_has_a_value_and_another_one(schema, first, second):
    def resolve(one):
        return SCHEMAS[one["$ref"].rpartition("/")[2]]

    assert status_samples(schema, 4, resolve) == (first, second)


def test_where_any_field_may_be_the_usual_ones_are_reported():
    open_schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    for status in status_samples(open_schema, 7):
        assert status["observedGeneration"] == 7
        assert status["conditions"][0]["observedGeneration"] == 7


def test_a_schema_that_contains_itself_comes_to_an_end():
    schema = {"type": "object", "properties": {"inner": {"$ref": "#/itself"}}}
    assert status_samples(schema, 1, lambda _: schema)[0]["inner"]
