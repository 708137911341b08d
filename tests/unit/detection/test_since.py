"""Since when Kubernetes knows a field; the table is of one mind with itself."""

from genguard.detection.since import first_version, load_types
from genguard.generation.strategy import parse_version
from genguard.generation.table import known_versions
from tests.cases_loader import Case, table


@table("since.yaml", "group", "resource", "pointer", "is")
def test_the_first_version_that_knows_a_field(case: Case) -> None:
    found = first_version(case.get("group", ""), case["resource"], case["pointer"])
    assert found == case.get("is"), case.because


def test_the_table_leads_nowhere_else_and_ends_with_the_newest_version_of_kinds_json() -> None:
    types = load_types()
    rows = [row for fields in types.values() for row in fields.values()]
    assert {below for _, below in rows} - {""} == types.keys() - {"kinds 0"}
    assert max((since for since, _ in rows if since), key=parse_version) == known_versions()[1]
