"""The next step for a certificate that replicas share, by what the objects hold and the time."""

from datetime import UTC, datetime, timedelta

import pytest

from certs import (
    KeyPair,
    Leave,
    Spread,
    Trust,
    Wait,
    Write,
    inspect,
    issue,
    issue_authority,
    next_step,
)
from certs.issue import AUTHORITY_LIFETIME
from certs.pem import read_certificates
from tests.unit.certs.samples import make

AT = datetime(2026, 5, 1, tzinfo=UTC)
NAMES = ("genguard.genguard-system.svc",)
LIFE = timedelta(days=30)
DAY, SECOND = timedelta(days=1), timedelta(seconds=1)
DUE = AT + 21 * DAY


def contents(authority, *trusted: KeyPair, at=AT, names=NAMES):
    """The Secret with a leaf of this authority."""
    leaf = issue(names=names, at=at, authority=authority, leaf_lifetime=LIFE).leaf
    bundle = b"".join(one.cert_pem for one in (authority, *trusted))
    signs = {"ca.crt": bundle, "ca.key": authority.key_pem}
    return {"tls.crt": leaf.cert_pem, "tls.key": leaf.key_pem} | signs


def without(files, *names: str):
    return {name: content for name, content in files.items() if name not in names}


OURS, OTHER, YOUNG = (issue_authority(at=AT) for _ in range(3))
FILES, OTHERS, CA = contents(OURS), contents(OTHER), OURS.cert_pem
BRIEF = issue_authority(at=AT, lifetime=LIFE)
EARLIER = without(contents(BRIEF), "ca.key")
"""As an earlier version or `genguard install` leaves it: nobody has the authority's key."""
STAGED = EARLIER | {
    "ca.crt": OTHER.cert_pem + BRIEF.cert_pem,
    "next.crt": OTHERS["tls.crt"],
    "next.key": OTHERS["tls.key"],
}
"""As an earlier version leaves it halfway: a new leaf waits until its authority is trusted."""
PREPARED = EARLIER | {"ca.crt": CA + BRIEF.cert_pem, "ca.key": OURS.key_pem}


def step(files, *bundles: bytes, at=AT, since=AT, lifetime=LIFE):
    return next_step(files, Trust(bundles, since), at, names=NAMES, lifetime=lifetime)


@pytest.mark.parametrize(
    ("files", "bundles", "at", "expected"),
    [
        pytest.param(FILES, [CA], AT, Wait, id="good, young and trusted"),
        pytest.param(FILES, [], AT, Wait, id="nobody is registered yet"),
        pytest.param(FILES, [CA, b""], AT, Spread, id="a webhook without a bundle"),
        pytest.param(FILES, [OTHER.cert_pem], AT, Spread, id="a bundle that somebody has spoilt"),
        pytest.param(FILES, [CA], DUE, "promoted", id="two thirds of the leaf's life are over"),
        pytest.param(FILES, [CA], AT + 40 * DAY, "promoted", id="the leaf has expired"),
        pytest.param(FILES, [CA, b""], DUE, Spread, id="due, and a webhook without a bundle"),
        pytest.param(FILES, [CA], AT + 7 * 365 * DAY, "prepared", id="the authority is old"),
        pytest.param(FILES | {"ca.key": b""}, [CA], AT, Wait, id="no key, while it is not needed"),
        pytest.param(FILES | {"ca.key": b""}, [CA], DUE, "prepared", id="the key is lost"),
        pytest.param(
            FILES | {"ca.key": OTHER.key_pem}, [CA], DUE, "prepared", id="the key of another"
        ),
        pytest.param(
            FILES | {"ca.key": FILES["tls.key"], "ca.crt": CA + FILES["tls.crt"]},
            [CA],
            DUE,
            "prepared",
            id="the key of what is no authority",
        ),
        pytest.param({}, [CA], AT, "prepared", id="an empty Secret"),
        pytest.param(FILES | {"tls.crt": b"?"}, [CA], DUE, "promoted", id="a spoilt leaf"),
        pytest.param(
            FILES | {"tls.key": OTHERS["tls.key"]}, [CA], DUE, "promoted", id="another leaf's key"
        ),
        pytest.param(FILES | {"ca.crt": b""}, [CA], AT, "prepared", id="no bundle"),
        pytest.param(FILES | {"ca.crt": OTHER.cert_pem}, [CA], AT, "prepared", id="another bundle"),
        pytest.param(
            contents(OURS, names=("elsewhere",)), [CA], DUE, "promoted", id="for another name"
        ),
        pytest.param(EARLIER, [BRIEF.cert_pem], AT, Wait, id="of an earlier version, good"),
        pytest.param(EARLIER, [BRIEF.cert_pem], DUE, "prepared", id="of an earlier version, due"),
        pytest.param(STAGED, [BRIEF.cert_pem], DUE, "prepared", id="staged by an earlier version"),
        pytest.param(STAGED | OTHERS, [STAGED["ca.crt"]], AT, "tidied", id="and nearly done by it"),
        pytest.param(PREPARED, [BRIEF.cert_pem], DUE, Spread, id="nobody trusts the new one yet"),
        pytest.param(PREPARED, [BRIEF.cert_pem, PREPARED["ca.crt"]], DUE, Spread, id="some do"),
        pytest.param(PREPARED, [PREPARED["ca.crt"]], DUE, "promoted", id="trusted by all"),
        pytest.param(PREPARED, [], DUE, "promoted", id="nobody who could call"),
        pytest.param(
            PREPARED | {"ca.crt": CA},
            [BRIEF.cert_pem],
            DUE,
            "prepared",
            id="ca.crt has lost the authority of what is served",
        ),
        pytest.param(
            PREPARED | contents(OURS, BRIEF, at=DUE),
            [PREPARED["ca.crt"]],
            AT + 29 * DAY,
            Wait,
            id="the old authority still lives",
        ),
        pytest.param(
            PREPARED | contents(OURS, BRIEF, at=DUE),
            [PREPARED["ca.crt"]],
            AT + 31 * DAY,
            "tidied",
            id="the old authority has ended",
        ),
        pytest.param(
            contents(OURS, at=DUE), [PREPARED["ca.crt"]], AT + 31 * DAY, Spread, id="and is tidied"
        ),
    ],
)
def test_the_next_step(files, bundles, at, expected):
    found = step(files, *bundles, at=at, since=at - 30 * SECOND)
    assert getattr(found, "done", type(found)) == expected


def test_a_renewed_leaf_changes_neither_the_authority_nor_what_is_trusted():
    due = step(FILES | {"mine": b"kept"}, CA, at=DUE)
    assert isinstance(due, Write)
    assert "due for renewal" in due.reason
    assert without(due.files, "tls.crt", "tls.key") == {
        "ca.crt": CA,
        "ca.key": OURS.key_pem,
        "mine": b"kept",
    }
    renewed = (due.files[name] for name in ("tls.crt", "tls.key", "ca.crt"))
    assert inspect(*renewed, at=DUE, names=NAMES).problems == ()


def test_a_new_authority_lives_long_is_the_first_and_leaves_the_old_one_trusted():
    due = step(EARLIER, BRIEF.cert_pem, at=DUE)
    new, old = read_certificates(due.files["ca.crt"])
    assert new.not_valid_after_utc == DUE + AUTHORITY_LIFETIME
    assert read_certificates(BRIEF.cert_pem) == (old,)
    assert without(due.files, "ca.crt", "ca.key") == without(EARLIER, "ca.crt")


def test_a_leaf_that_an_earlier_version_staged_is_dropped_and_its_authority_stays_trusted():
    due = step(STAGED, BRIEF.cert_pem, at=DUE)
    assert due.files.keys() == {"tls.crt", "tls.key", "ca.crt", "ca.key"}
    assert due.files["ca.crt"].endswith(STAGED["ca.crt"])


def test_the_leaf_changes_when_its_authority_has_been_trusted_for_long_enough():
    bundle = PREPARED["ca.crt"]
    assert step(PREPARED, bundle, at=DUE, since=DUE) == Wait(DUE + 30 * SECOND)
    assert isinstance(step(PREPARED, bundle, at=DUE + 30 * SECOND, since=DUE), Write)


def test_a_short_life_waits_for_less():
    wait = step(PREPARED, PREPARED["ca.crt"], at=DUE, since=DUE, lifetime=60 * SECOND)
    assert wait == Wait(DUE + 3 * SECOND)


def test_an_authority_that_is_only_in_a_registration_stays_trusted_while_the_secret_is_mended():
    due = step({"tls.crt": b"?", "tls.key": b"?", "ca.crt": b"?"}, CA, OTHER.cert_pem)
    assert isinstance(due, Write)
    assert due.files["ca.crt"].endswith(CA + OTHER.cert_pem)


def test_an_authority_whose_key_is_there_is_found_again_in_a_registration():
    due = step({"ca.key": OURS.key_pem}, OTHER.cert_pem, CA)
    assert isinstance(due, Write)
    assert due.files == {"ca.crt": CA + OTHER.cert_pem, "ca.key": OURS.key_pem}


def test_a_secret_that_is_spoilt_again_and_again_does_not_grow_for_ever():
    files = FILES
    for _ in range(30):
        due = step(files | {"tls.crt": b"?", "ca.key": b"?"}, files["ca.crt"])
        assert isinstance(due, Write)
        files = due.files
    assert files["ca.crt"].count(b"BEGIN CERTIFICATE") == 20
    assert not isinstance(step(files, files["ca.crt"]), Write)


def test_it_is_looked_at_again_when_it_is_due_or_an_authority_ends():
    wait = step(FILES, CA)
    assert wait.until == inspect(FILES["tls.crt"], FILES["tls.key"], at=AT).facts.renew_from
    both = contents(OURS, BRIEF, at=DUE)
    assert step(both, both["ca.crt"], at=DUE).until == AT + LIFE


def test_a_pair_of_somebody_else_is_never_replaced():
    signer = make("Example Corp CA", ca=True, begins=AT, ends=AT + 60 * DAY)
    leaf = make(signer=signer, begins=AT, ends=AT + LIFE)
    files = {"tls.crt": leaf.cert_pem, "tls.key": leaf.key_pem, "ca.crt": signer.cert_pem}
    for at in (AT, AT + 100 * DAY):
        found = step(files, CA, at=at)
        assert isinstance(found, Leave)
        assert "Example Corp CA" in found.reason


def test_no_step_shows_a_key_in_a_log():
    assert "KEY" not in repr(step(FILES, at=DUE))
