"""Below what an object stands: its controller, else the first of its owners."""

import msgspec
import pytest

from genguard.objects.metadata import LONGEST_UID, read_owner_uid
from genguard.status.tracked_state import ObjectSnapshot

CONTROLLER = {"kind": "ReplicaSet", "uid": "b", "controller": True}


@pytest.mark.parametrize(
    ("references", "owner"),
    [
        (None, ""),
        ([], ""),
        ([{"kind": "Node", "uid": "a"}], "a"),
        ([{"kind": "Node", "uid": "a"}, CONTROLLER], "b"),
        ([{"kind": "Node", "uid": "a", "controller": False}, {"uid": "c"}], "a"),
        ([{"kind": "Node"}], ""),
        ([{"uid": "x" * (LONGEST_UID + 1)}], ""),
        ([{"uid": "ü" * LONGEST_UID}], ""),
    ],
)
def test_an_object_stands_below_one_other(references, owner):
    document = {"apiVersion": "v1", "metadata": {"name": "n", "ownerReferences": references}}
    fields = {key: msgspec.Raw(msgspec.json.encode(value)) for key, value in document.items()}
    assert read_owner_uid(ObjectSnapshot(fields, "Pod").metadata.owner_references) == owner


def test_without_the_field_it_stands_below_nothing():
    fields = {"apiVersion": msgspec.Raw(b'"v1"'), "metadata": msgspec.Raw(b'{"name":"n"}')}
    assert read_owner_uid(ObjectSnapshot(fields, "Pod").metadata.owner_references) == ""
