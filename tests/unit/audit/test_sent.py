"""What the request of an audited update alone shows of it."""

import json
from typing import Any

import msgspec
import pytest

from genguard.audit.event import read_event
from genguard.audit.sent import SentWrites
from tests.unit.audit.samples import Json, event


def uid_of(writes: SentWrites, metadata: Any = None) -> str:
    """Return the uid of a write; `metadata` is that of the answer, if the level shows one."""
    stored: Json | None = None if metadata is None else {"metadata": metadata}
    document = event(level="RequestResponse", sent={"status": {}}, stored=stored)
    audited = read_event(json.dumps(document).encode())
    assert audited.object_ref is not None
    return writes.write(audited, audited.object_ref, ()).object.uid


def test_the_uid_is_remembered_for_writes_whose_answer_is_not_shown():
    writes = SentWrites(lambda group, version, resource: False)
    assert [uid_of(writes), uid_of(writes, {"uid": "u-1"}), uid_of(writes)] == ["", "u-1", "u-1"]


@pytest.mark.parametrize("metadata", [{"uid": 5}, 5, []])
def test_an_answer_that_cannot_be_decoded_does_not_make_it_forgotten(metadata):
    writes = SentWrites(lambda group, version, resource: False)
    uid_of(writes, {"uid": "u-1"})
    with pytest.raises(msgspec.ValidationError):
        uid_of(writes, metadata)
    assert uid_of(writes) == "u-1"
