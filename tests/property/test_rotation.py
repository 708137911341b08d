"""However rotation is interrupted or doubled: what is served is trusted by whoever may call."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from certs import Wait, Write, inspect, renew, service_names
from certs.inspect import explain_failure
from certs.pem import read_certificates
from certs.rotation import LONGEST_SPREAD
from tests.unit.cluster.turns import NAMESPACE, Caller, Objects
from webhook.cluster.certificate_rotation import RotatedSecret, Rotator

AT = datetime(2026, 5, 1, tzinfo=UTC)
NAMES = service_names("genguard", NAMESPACE)
LIFE = timedelta(hours=1)
OTHER = renew(None, names=NAMES, at=AT).pair
FRESH = renew(None, names=NAMES, at=AT, leaf_lifetime=LIFE).pair
SPOILT = {
    "no certificate": {"tls.crt": b"spoilt"},
    "another key": {"tls.key": OTHER.key_pem},
    "no bundle": {"ca.crt": b""},
    "another bundle": {"ca.crt": OTHER.ca_pem or b""},
    "no authority's key": {"ca.key": b""},
    "another authority's key": {"ca.key": OTHER.key_pem},
    "left by an earlier version": {"next.crt": OTHER.cert_pem, "next.key": OTHER.key_pem},
    "no bundle and no authority's key": {"ca.crt": b"", "ca.key": b""},
    "nothing but the authority's key": dict.fromkeys(("tls.crt", "tls.key", "ca.crt"), b""),
    "nothing at all": dict.fromkeys(("tls.crt", "tls.key", "ca.crt", "ca.key"), b""),
}
LAG = LONGEST_SPREAD - timedelta(seconds=1)
"""How far an API server may be behind."""

leaders = st.integers(0, 1)
turns = st.tuples(st.just("turn"), leaders)
rounds = st.tuples(st.just("round"), leaders)
actions = st.one_of(
    turns,
    turns,
    turns,
    rounds,
    rounds,
    st.tuples(st.just("kill"), leaders),
    st.tuples(st.just("load"), st.integers(1, 2)),
    st.tuples(st.just("time"), st.sampled_from([1, 5, 15, 30, 30, 600, 1500])),
    st.tuples(st.just("spoil"), st.sampled_from(sorted(SPOILT))),
)


class Run:
    """Two who both believe that they lead, and three replicas."""

    def __init__(self, lag: timedelta = LAG) -> None:
        self.lag = lag
        files = {"tls.crt": FRESH.cert_pem, "tls.key": FRESH.key_pem, "ca.crt": FRESH.ca_pem or b""}
        self.objects = Objects(files, FRESH.ca_pem or b"", AT)
        self.leaders = [self.leader(), self.leader()]
        self.served = [FRESH.cert_pem] * 3

    def leader(self) -> Caller:
        rotated = RotatedSecret(NAMESPACE, "genguard-tls", NAMES, LIFE)
        return Caller(Rotator(self.objects, rotated, lambda: self.objects.at).take_step)

    def do(self, what: str, which: int | str) -> None:
        if what == "turn":
            self.leaders[which].turn()
        elif what == "round":
            self.leaders[which].round()
        elif what == "kill":
            self.leaders[which].end()
            self.leaders[which] = self.leader()
        elif what == "load":
            self.load(which)
        elif what == "time":
            self.objects.at += timedelta(seconds=which)
        else:
            self.objects.spoil(self.objects.files | SPOILT[which])

    def load(self, replica: int) -> None:
        """A pair that is bad is not served, and the last good one is."""
        files = self.objects.files
        pair = (files.get(name, b"") for name in ("tls.crt", "tls.key", "ca.crt"))
        if not inspect(*pair, at=self.objects.at).errors:
            self.served[replica] = files["tls.crt"]

    def check(self) -> None:
        at = self.objects.at
        for leaf, *between in map(read_certificates, self.served):
            for bundle in self.objects.bundles(at - self.lag):
                if at < leaf.not_valid_after_utc:
                    assert explain_failure(leaf, between, read_certificates(bundle), at) is None


def is_promoted(step: object) -> bool:
    return isinstance(step, Write) and step.done == "promoted"


@settings(max_examples=200)
@given(st.sampled_from([0, 44, 46]), st.lists(actions, max_size=100))
def test_a_leaf_that_is_served_is_trusted_at_every_moment_and_in_the_end_all_is_new(age, steps):
    run = Run()
    run.objects.at += timedelta(minutes=age)
    for what, which in steps:
        run.do(what, which)
        run.load(0)  # the others may be late
        run.check()
    for leader in run.leaders:
        leader.end()
    last = run.leader()
    for _ in range(200):
        step = last.round()
        for replica in range(3):
            run.load(replica)
        run.check()
        if isinstance(step, Wait):
            if step.until - run.objects.at > 2 * LONGEST_SPREAD:
                break
            run.objects.at = max(step.until, run.objects.at)
    files = run.objects.files
    assert files.keys() - {"ca.key"} == {"tls.crt", "tls.key", "ca.crt"}
    found = inspect(
        files["tls.crt"], files["tls.key"], files["ca.crt"], at=run.objects.at, names=NAMES
    )
    assert found.problems == ()
    assert run.objects.bundles(run.objects.at) == {files["ca.crt"]}
    assert set(run.served) == {files["tls.crt"]}


BOTH = (OTHER.ca_pem or b"") + (FRESH.ca_pem or b"")
STAGED = {"ca.crt": BOTH, "next.crt": OTHER.cert_pem, "next.key": OTHER.key_pem}
PROMOTED = {"ca.crt": BOTH, "tls.crt": OTHER.cert_pem, "tls.key": OTHER.key_pem}


@pytest.mark.parametrize("minutes", [0, 44])
@pytest.mark.parametrize(
    ("left", "bundle"),
    [
        pytest.param({}, FRESH.ca_pem, id="whole"),
        pytest.param({}, BOTH, id="trusted and not staged"),
        pytest.param(STAGED, FRESH.ca_pem, id="staged"),
        pytest.param(STAGED, BOTH, id="staged and trusted"),
        pytest.param(PROMOTED, BOTH, id="promoted"),
    ],
)
def test_what_an_earlier_version_left_is_taken_over_and_what_is_served_stays_trusted(
    left, bundle, minutes
):
    """It kept no authority's key, and a new leaf in next.crt until its authority was trusted."""
    run = Run()
    run.objects.at += timedelta(minutes=minutes)
    run.objects.spoil(run.objects.files | left)
    run.objects.trust(bundle)
    run.objects.at += LONGEST_SPREAD
    renewed_at = run.objects.at + LIFE
    while run.objects.at < renewed_at:
        step = run.leaders[0].round()
        run.check()
        run.load(0)  # the others are late
        run.check()
        if isinstance(step, Wait):
            run.objects.at = min(step.until, renewed_at)
        for replica in (1, 2):
            run.load(replica)
    files = run.objects.files
    assert not any(name.startswith("next.") for name in files)
    found = inspect(files["tls.crt"], files["tls.key"], files["ca.crt"], at=run.objects.at)
    assert found.errors == ()


@pytest.mark.parametrize("drifted", [False, True])
@pytest.mark.parametrize("turns_before", range(7))
def test_a_leader_that_slept_on_any_call_takes_no_trust_away(turns_before, drifted):
    """While it sleeps the Secret is spoilt, and another one is about to promote a new leaf."""
    run = Run()
    if drifted:
        run.objects.trust((FRESH.ca_pem or b"") + (OTHER.ca_pem or b""))
    sleeper, other = run.leaders
    for _ in range(turns_before):
        sleeper.turn()
    run.do("spoil", "no certificate")
    while not isinstance(step := other.round(), Wait):
        pass
    run.objects.at = step.until
    for _ in range(5):  # four objects are read, and the Secret is about to be written
        other.turn()
    sleeper.round()
    assert is_promoted(other.round())
    run.load(0)
    run.check()


def test_an_api_server_that_lags_for_longer_than_is_waited_would_not_trust_what_is_served():
    """So the law above can fail."""
    run = Run(lag=LONGEST_SPREAD + timedelta(minutes=1))
    run.objects.at += LIFE * 3 / 4
    while not is_promoted(step := run.leaders[0].round()):
        if isinstance(step, Wait):
            run.objects.at = step.until
    run.check()
    run.load(0)
    with pytest.raises(AssertionError):
        run.check()
