"""What is to be done with a pair that replicas share, by what is there and at what time."""

from datetime import UTC, datetime, timedelta

import pytest

from certs import (
    Leave,
    Prepare,
    Promote,
    Spread,
    Tidy,
    Trusting,
    Wait,
    inspect,
    next_step,
    stage,
)
from tests.unit.certs.samples import make

AT = datetime(2026, 5, 1, tzinfo=UTC)
NAMES = ("genguard.genguard-system.svc",)
LIFE = timedelta(days=30)
DAY, SECOND = timedelta(days=1), timedelta(seconds=1)
DUE = AT + 21 * DAY
NOTHING = Prepare(b"", "")


def pair(at=AT, names=NAMES):
    """As a first `stage` and `Promote` leave it."""
    made = stage({}, NOTHING, names=names, at=at, lifetime=LIFE)
    return {"tls.crt": made["next.crt"], "tls.key": made["next.key"], "ca.crt": made["ca.crt"]}


OLD, OTHER = pair(), pair()
CA = OLD["ca.crt"]
STAGED = stage(OLD, Prepare(CA, ""), names=NAMES, at=DUE, lifetime=LIFE)
NEW_CA = STAGED["ca.crt"].removesuffix(CA)
NEW = {"tls.crt": STAGED["next.crt"], "tls.key": STAGED["next.key"], "ca.crt": STAGED["ca.crt"]}


def step(files, *bundles: bytes, at=AT, since=AT):
    trusting = [Trusting(f"{n}", bundle, since) for n, bundle in enumerate(bundles)]
    return next_step(files, trusting, at, names=NAMES)


@pytest.mark.parametrize(
    ("files", "bundles", "at", "expected"),
    [
        pytest.param(OLD, [CA], AT, Wait, id="good, young and trusted"),
        pytest.param(OLD, [], AT, Wait, id="nobody is registered yet"),
        pytest.param(OLD, [CA, b""], AT, Spread, id="a registration without a bundle"),
        pytest.param(OLD, [OTHER["ca.crt"]], AT, Spread, id="a bundle that somebody has spoilt"),
        pytest.param(OLD, [CA], DUE, Prepare, id="two thirds of its life are over"),
        pytest.param(OLD, [CA], AT + 40 * DAY, Prepare, id="it has expired"),
        pytest.param({}, [CA], AT, Prepare, id="an empty Secret"),
        pytest.param(OLD | {"tls.key": OTHER["tls.key"]}, [CA], AT, Prepare, id="another key"),
        pytest.param(OLD | {"ca.crt": b""}, [CA], AT, Prepare, id="no bundle to know it by"),
        pytest.param(OLD | {"ca.crt": OTHER["ca.crt"]}, [CA], AT, Prepare, id="another bundle"),
        pytest.param(pair(names=("elsewhere",)), [CA], AT, Prepare, id="for another name"),
        pytest.param(STAGED, [CA], DUE, Spread, id="a new pair that nobody trusts yet"),
        pytest.param(STAGED, [CA, STAGED["ca.crt"]], DUE, Spread, id="trusted by some alone"),
        pytest.param(STAGED, [STAGED["ca.crt"]], DUE, Wait, id="trusted since a moment ago"),
        pytest.param(STAGED, [STAGED["ca.crt"]], DUE + 30 * SECOND, Promote, id="trusted by all"),
        pytest.param(STAGED, [], DUE, Promote, id="nobody who could call"),
        pytest.param(
            STAGED | {"ca.crt": NEW_CA}, [CA], DUE, Prepare, id="ca.crt has lost what is in use"
        ),
        pytest.param(
            STAGED | {"tls.crt": b"?"},
            [STAGED["ca.crt"]],
            DUE + DAY,
            Promote,
            id="spoilt meanwhile",
        ),
        pytest.param(
            STAGED | {"next.key": b""}, [STAGED["ca.crt"]], DUE, Prepare, id="the new one is spoilt"
        ),
        pytest.param(
            STAGED, [STAGED["ca.crt"]], DUE + 25 * DAY, Prepare, id="the new one is old by now"
        ),
        pytest.param(
            NEW | {"next.crt": b"left"}, [NEW["ca.crt"]], DUE, Tidy, id="something is left over"
        ),
        pytest.param(NEW, [NEW["ca.crt"]], AT + 29 * DAY, Wait, id="the old authority still lives"),
        pytest.param(NEW, [NEW["ca.crt"]], AT + 31 * DAY, Tidy, id="the old authority has ended"),
        pytest.param(NEW | {"ca.crt": NEW_CA}, [NEW["ca.crt"]], AT + 31 * DAY, Spread, id="tidied"),
    ],
)
def test_the_next_step(files, bundles, at, expected):
    assert isinstance(step(files, *bundles, at=at, since=DUE), expected)


def test_a_new_pair_is_put_beside_the_old_one_and_both_are_trusted():
    due = step(OLD, CA, at=DUE)
    assert isinstance(due, Prepare)
    assert due.bundle == CA
    assert "due for renewal" in due.reason
    for name in ("tls.crt", "tls.key"):
        assert STAGED[name] == OLD[name]
    for crt, key in (("tls.crt", "tls.key"), ("next.crt", "next.key")):
        assert not inspect(STAGED[crt], STAGED[key], STAGED["ca.crt"], at=DUE, names=NAMES).errors


def test_the_leaf_changes_when_it_has_been_trusted_for_long_enough_and_takes_its_key_along():
    wait = step(STAGED, STAGED["ca.crt"], at=DUE, since=DUE)
    assert wait == Wait(DUE + 30 * SECOND)
    done = step(STAGED | {"mine": b"kept"}, STAGED["ca.crt"], at=wait.until, since=DUE)
    assert done == Promote({**NEW, "mine": b"kept"})


def test_the_one_that_was_trusted_last_decides():
    trusting = [Trusting("a", STAGED["ca.crt"], DUE - DAY), Trusting("b", STAGED["ca.crt"], DUE)]
    assert next_step(STAGED, trusting, DUE, names=NAMES) == Wait(DUE + 30 * SECOND)


def test_a_short_life_waits_for_less():
    brief = stage(OLD, Prepare(CA, ""), names=NAMES, at=DUE, lifetime=60 * SECOND)
    wait = step(brief, brief["ca.crt"], at=DUE, since=DUE)
    assert isinstance(wait, Wait)
    assert 3 * SECOND < wait.until - DUE < 4 * SECOND


def test_an_authority_that_is_only_in_a_registration_stays_trusted_while_the_secret_is_mended():
    due = step({"tls.crt": b"?", "tls.key": b"?", "ca.crt": b"?"}, CA, OTHER["ca.crt"])
    assert isinstance(due, Prepare)
    assert due.bundle == CA + OTHER["ca.crt"]


def test_a_secret_that_is_spoilt_again_and_again_does_not_grow_for_ever():
    files = OLD
    for _ in range(30):
        due = step(files | {"tls.crt": b"?", "next.crt": b"?"}, files["ca.crt"])
        assert isinstance(due, Prepare)
        files = stage(files, due, names=NAMES, at=AT, lifetime=LIFE)
    assert files["ca.crt"].count(b"BEGIN CERTIFICATE") == 21


def test_an_authority_that_has_ended_leaves_the_bundle():
    assert step(NEW, NEW["ca.crt"], at=AT + 31 * DAY) == Tidy({**NEW, "ca.crt": NEW_CA})


def test_it_is_looked_at_again_when_it_is_due_or_an_authority_ends():
    wait = step(OLD, CA)
    assert wait.until == inspect(OLD["tls.crt"], OLD["tls.key"], at=AT).facts.renew_from
    ends = inspect(OLD["tls.crt"], OLD["tls.key"], at=AT).facts.not_after
    assert step(NEW, NEW["ca.crt"], at=DUE).until == ends


def test_a_pair_of_somebody_else_is_never_replaced():
    signer = make("Example Corp CA", ca=True, begins=AT, ends=AT + 60 * DAY)
    leaf = make(signer=signer, begins=AT, ends=AT + LIFE)
    files = {"tls.crt": leaf.cert_pem, "tls.key": leaf.key_pem, "ca.crt": signer.cert_pem}
    for at in (AT, AT + 100 * DAY):
        found = step(files, CA, at=at)
        assert isinstance(found, Leave)
        assert "Example Corp CA" in found.reason


def test_no_step_shows_a_key_in_a_log():
    promoted = step(STAGED, at=DUE)
    assert isinstance(promoted, Promote)
    assert "KEY" not in repr(promoted)
