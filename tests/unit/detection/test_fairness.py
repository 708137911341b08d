"""Who holds most gives way first: one tenant cannot push out what is known of the others."""

import random

import pytest
from msgspec.structs import replace

from genguard.detection import ledger as ledger_module
from genguard.detection.damage import Damage, LostValue
from genguard.detection.ledger import Ledger
from genguard.detection.mutators import Mutators
from genguard.detection.question import ChangedBy, Signal
from tests.unit.detection.builders import OUTCOME, joined, status, update
from webhook.cluster.saved_findings import MOST_BYTES_OF_BLOCK, pack, unpack

(WRITE,) = joined((OUTCOME, update(status(a=1), status(a=2), subresource="status")))
LOST = Damage((LostValue(None, 3),), "deployment-controller")
MIB = 1024 * 1024
RANDOM = random.Random(1)
CHEAP = Signal(ChangedBy.REQUESTER, ("/status/a",), "it happened", (WRITE.requester,))


def costly() -> Signal:
    """Twenty long fields of a tenant's choice, which do not compress, and as much evidence."""
    names = [f"/metadata/annotations/{RANDOM.randbytes(120).hex()}" for _ in range(20)]
    return Signal(
        ChangedBy.REQUESTER, tuple(names), "mine", (WRITE.requester,), evidence={"fields": names}
    )


def enter(ledger: Ledger, namespace: str, name: str, sign: Signal, *times: float) -> None:
    where = replace(WRITE.object, namespace=namespace, name=name, uid=f"{namespace}/{name}")
    for time in times:
        one = replace(WRITE, object=where, time=time)
        ledger.add("status-clobbered", sign, one)


def with_damage(sign: Signal) -> Signal:
    return Signal(sign.changed_by, sign.paths, sign.message, sign.requesters, damage=LOST)


def known(ledger: Ledger, namespace: str) -> set[str]:
    return {x.object.name for x in ledger.findings() if x.object.namespace == namespace}


def victims() -> Ledger:
    """Two teams: what is wrong with `broken` is so still, and nobody writes it any more."""
    ledger = Ledger(Mutators())
    enter(ledger, "shop", "broken", with_damage(CHEAP), 1, 2, 3)
    enter(ledger, "bank", "fought-over", CHEAP, 1, 2, 3)
    enter(ledger, "bank", "once", CHEAP, 1)
    return ledger


ATTACKS = {
    "long fields of many objects in one namespace": (lambda _: "tenant", lambda: costly()),
    "in many namespaces, with one object each": (lambda n: f"tenant-{n}", lambda: costly()),
    "with damage": (lambda _: "tenant", lambda: with_damage(costly())),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_tenant_who_makes_thousands_of_findings_pushes_out_nobody(monkeypatch, attack):
    monkeypatch.setattr(ledger_module, "MOST_BYTES", MIB)
    namespace, sign = ATTACKS[attack]
    ledger = victims()
    for number in range(400):
        enter(ledger, namespace(number), f"mine-{number}", sign(), 10 + number)
    assert ledger.bytes <= MIB
    assert known(ledger, "shop") == {"broken"}
    assert known(ledger, "bank") == {"fought-over", "once"}
    assert ledger.dropped > 200


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_tenant_crowds_nobody_out_of_what_is_saved_for_the_standby(attack):
    namespace, sign = ATTACKS[attack]
    ledger = victims()
    for number in range(240):
        enter(ledger, namespace(number), f"mine-{number}", sign(), 10, 11)
    found = ledger.kept(MOST_BYTES_OF_BLOCK)
    whole, brief = (
        [(one.id, ledger.content(one, is_brief=is_brief)) for one in found]
        for is_brief in (False, True)
    )
    block, left_out = pack(whole, brief)
    assert left_out
    standby = Ledger(Mutators())
    standby.restore(unpack(block))
    assert known(standby, "shop") == {"broken"}
    assert known(standby, "bank") == {"fought-over", "once"}


def test_what_is_resolved_goes_first_then_info_and_damage_last(monkeypatch):
    ledger = Ledger(Mutators())
    enter(ledger, "a", "resolved", costly(), 1, 2, 3)
    ledger.resolve_quiet(10_000.0)
    enter(ledger, "a", "damaged", with_damage(costly()), 10_000)
    enter(ledger, "a", "warning", costly(), 10_001, 10_002, 10_003)
    enter(ledger, "a", "info", costly(), 10_004)
    gone: list[str] = []
    while left := known(ledger, "a"):
        monkeypatch.setattr(ledger_module, "MOST_BYTES", ledger.bytes - 1)
        ledger.restore((), keeps_own=True)
        gone += sorted(left - known(ledger, "a"))
    assert gone == ["resolved", "info", "warning", "damaged"]
    assert ledger.dropped == len(gone) - 1, "what was resolved is no loss"


def test_examples_go_before_a_finding_does(monkeypatch):
    ledger = Ledger(Mutators())
    for name in "ab":
        enter(ledger, "a", name, costly(), *range(5))
    monkeypatch.setattr(ledger_module, "MOST_BYTES", ledger.bytes - 1)
    ledger.restore((), keeps_own=True)
    assert sorted(len(one.evidence) for one in ledger.findings()) == [1, 5]
    assert ledger.dropped == 0
