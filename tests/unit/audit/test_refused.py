"""Which answers of the API server refuse the content of a write."""

import msgspec
import pytest

from genguard.audit.event import Event


def answered(code: int, *, decision="allow", **status) -> Event:
    event = {
        "verb": "update",
        "annotations": {"authorization.k8s.io/decision": decision},
        "responseStatus": {"code": code, **status},
    }
    return msgspec.convert(event, Event)


TERMINATING = {"causes": [{"reason": "NamespaceTerminating", "field": "metadata.namespace"}]}


@pytest.mark.parametrize(
    ("event", "because"),
    [
        (answered(400), "a webhook that names no code for an error"),
        (answered(403), "a policy or a quota"),
        (answered(413), "an object that is too large for the store"),
        (answered(422), "validation of the kind"),
        (answered(500, message='failed calling webhook "a.b.c"'), "a webhook that is down"),
    ],
)
def test_the_content_is_refused(event, because):
    assert event.is_refused, because


@pytest.mark.parametrize(
    ("event", "because"),
    [
        (answered(200), "it was carried out"),
        (answered(404), "the object is gone"),
        (answered(409), "a conflict is tried again with another content"),
        (answered(429), "an overload says nothing of the content"),
        (answered(403, decision="forbid"), "authorization comes before admission"),
        (answered(403, details=TERMINATING), "the namespace is being deleted"),
        (answered(500, message="etcdserver: request timed out"), "the store failed"),
    ],
)
def test_the_content_is_not_refused(event, because):
    assert not event.is_refused, because
