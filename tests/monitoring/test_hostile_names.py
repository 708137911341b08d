"""A real Alertmanager takes whatever users and objects are called, and all of it is printable."""

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from msgspec import structs

from genguard.detection.finding import Finding
from tests.controlplane.client import wait_until
from tests.monitoring.rules import RUNBOOK_URL
from tests.monitoring.stack import Alert, Stack, running
from tests.unit.alerts.findings import finding
from webhook.alerts.alertmanager import AlertmanagerSink

NAMES = {
    "253 characters": "n" * 253,
    "4,096 characters of four bytes": "\U0001f600" * 4_096,
    "newlines": 'a"\n}\r\nALERTS{alertname="Forged"} 1\n',
    "quotes": '"\'`\\\\"}',
    "markup": "<script>alert(1)</script><!channel>&amp;",
    "templates": '{{ .Labels.alertname }}{{ template "x" }}$labels$value',
    "controls": "a\x00\x1b[2J\x7f\x85\x9b31m",
    "overrides": "a\u202egnp.exe\u2066\u200b\u2028\ufeff",
    "nothing": "",
}


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with running() as found:
        yield found


def called(name: str, number: int) -> Finding:
    """A finding of an object, a user and a message that say this."""
    made = finding()
    where = structs.replace(made.object, namespace=name, name=name)
    actors = tuple(structs.replace(one, type="user", name=name) for one in made.actors)
    return structs.replace(
        made, id=f"id-{number}", object=where, actors=actors, message=f"by {name}"
    )


async def test_every_one_arrives_as_one_alert_in_which_everything_is_printable(
    stack: Stack,
) -> None:
    found = tuple(called(name, number) for number, name in enumerate(NAMES.values()))
    runbooks = RUNBOOK_URL.rstrip("/")
    sink = AlertmanagerSink([stack.alertmanager.url], runbooks, lambda: datetime.now(UTC))
    for _ in range(2):
        await sink.tell((), found)

    def told() -> list[Alert]:
        alerts = stack.receiver.told("firing", alertname="GenguardLoop")
        return alerts if len(alerts) >= len(NAMES) else []

    alerts = wait_until(told, what="every alert")
    for alert in (*alerts, *stack.alertmanager.active()):
        texts = [*alert["labels"].values(), *alert["annotations"].values()]
        assert "".join(texts).isprintable()
        assert alert["labels"]["alertname"] == "GenguardLoop"
        assert alert["annotations"]["runbook_url"].startswith(RUNBOOK_URL)
    assert {one["labels"]["finding"] for one in stack.alertmanager.active()} == {
        one.id for one in found
    }
    by_id = {one["labels"]["finding"]: one["labels"] for one in alerts}
    names = list(NAMES)
    assert by_id[f"id-{names.index('markup')}"]["name"] == NAMES["markup"]
    assert "name" not in by_id[f"id-{names.index('nothing')}"]
