"""Whether a schema takes the conditions that --flip-status writes: certain, or refused."""

from genguard.generation.flipped_conditions import condition_fault
from tests.cases_loader import Case, table


@table("conditions_schema.yaml", "root", "status", "conditions", "items", "fault")
def test_a_schema_takes_the_conditions_only_where_that_is_certain(case: Case):
    conditions = case.get("conditions") or {"type": "array", "items": case.get("items")}
    status = case.get("status") or {"type": "object", "properties": {"conditions": conditions}}
    schema = {"type": "object", **case.get("root", {}), "properties": {"status": status}}
    assert condition_fault(schema) == case["fault"]
