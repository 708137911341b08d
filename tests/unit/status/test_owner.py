"""Below what an object stands: its controller, else the first of its owners."""

from genguard.objects.fields import fields_of
from genguard.objects.metadata import LONGEST_UID, read_owner_uid
from genguard.status.tracked_state import ObjectSnapshot
from tests.cases_loader import table


@table("status/owners.yaml", "references", "owner")
def test_an_object_stands_below_one_other(case):
    document = {"apiVersion": "v1", "metadata": {"name": "n"}}
    if case["references"] is not None:
        document["metadata"]["ownerReferences"] = [
            {key: "x" * (LONGEST_UID + 1) if one == "<LONG>" else one for key, one in given.items()}
            for given in case["references"]
        ]
    found = ObjectSnapshot(fields_of(document), "Pod").metadata.owner_references
    assert read_owner_uid(found) == case["owner"], case.because
