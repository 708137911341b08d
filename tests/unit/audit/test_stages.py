"""What was asked for, and what webhooks made of it, from an audit event."""

import copy
import json

import msgspec
import pytest

from genguard.audit.event import Event, read_calls
from genguard.audit.stages import UnknownStagesError, stages
from genguard.audit.stored import StoredObject
from tests.cases_loader import table
from tests.unit.audit.samples import annotations, event

KEYS = ("verb", "before", "sent", "patches", "after", "asked", "rounds", "unknown")
GENGUARD = ("zzzzzz-genguard-mutate", "mutate.genguard.io")


def whole(fields):
    made = copy.deepcopy(fields)
    made["metadata"] = {"name": "web", "uid": "u-1", **made.get("metadata", {})}
    return {"kind": "Widget", "apiVersion": "example.org/v1", **made}


def stored(fields):
    raw = msgspec.Raw(json.dumps(whole(fields or {})).encode())
    return StoredObject.read(raw) if fields is not None else None


def told(case):
    sent = whole(case["sent"]) if case["verb"] == "update" else case["sent"]
    calls = [
        {**one, "index": index, "hook": GENGUARD if one.get("own") else (f"h{index}", "w")}
        for index, one in enumerate(case.get("patches", ()))
    ]
    made = event(*calls, verb=case["verb"], sent=sent)
    read = msgspec.json.decode(json.dumps(made).encode(), type=Event)
    return stages(
        read, stored(case["before"]), stored(case.get("after")), read_calls(annotations(*calls))
    )


@table("audit/stages.yaml", *KEYS)
def test_stages(case):
    if case.get("unknown"):
        with pytest.raises(UnknownStagesError):
            told(case)
        return
    asked, *rounds = [
        {key: msgspec.json.decode(raw) for key, raw in one.items()} for one in told(case)
    ]
    assert asked == whole(case["asked"]), case.because
    assert rounds == [whole(one) for one in case["rounds"]], case.because


def test_what_did_not_change_keeps_its_bytes():
    about = b'"kind":"W","apiVersion":"v1","metadata":{"name":"a"}'
    raw = b"{" + about + b',"spec":{"t":"\\u003c","n":1.50},"x":1}'
    before = StoredObject.read(msgspec.Raw(raw))
    after = StoredObject.read(msgspec.Raw(raw.replace(b'"x":1', b'"x":2')))
    call = {"patch": [{"op": "replace", "path": "/x", "value": 2}]}
    made = event(call, verb="patch", sent={"spec": {"t": "<"}})
    read = msgspec.json.decode(json.dumps(made).encode(), type=Event)
    asked, _ = stages(read, before, after, read_calls(annotations(call)))
    assert asked == before.fields
