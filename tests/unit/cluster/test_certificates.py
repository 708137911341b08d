"""How a shared pair is renewed in the objects of a cluster, and what is told of it."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from certs import inspect, issue, issue_authority, service_names
from tests.unit.cluster.shared_secret import NAMESPACE, SECRET, Objects
from webhook.cluster.certificates import LONGEST_SECONDS, SPREAD_SECONDS, Certificates
from webhook.cluster.rest import RefusedError
from webhook.manifest.documents import path_of
from webhook.manifest.rendering import REGISTRATIONS, registration_of

AT = datetime(2026, 5, 1, tzinfo=UTC)
NAMES = service_names("genguard", NAMESPACE)
LIFE = timedelta(days=30)
PAIR = issue(names=NAMES, at=AT, leaf_lifetime=LIFE)
OTHER = issue(names=NAMES, at=AT, leaf_lifetime=LIFE)
FILES = {"tls.crt": PAIR.cert_pem, "tls.key": PAIR.key_pem, "ca.crt": PAIR.ca_pem or b""}
"""As `genguard install` makes it: the authority lives as long as its leaf, and has no key."""
MUTATE = path_of(registration_of(*REGISTRATIONS[1]))
DUE = AT + timedelta(days=25)


class Scene:
    """An installation, and its leader."""

    def __init__(self, at: datetime = DUE, **spoilt: bytes) -> None:
        self.at, self.seconds = at, 0.0
        self.objects = Objects(FILES, FILES["ca.crt"])
        self.objects.spoil(FILES | {name.replace("_", "."): one for name, one in spoilt.items()})
        self.certificates = self.leader()

    def leader(self) -> Certificates:
        made = NAMESPACE, "genguard-tls", NAMES, LIFE
        return Certificates(self.objects, *made, lambda: self.at, lambda: self.seconds)

    def step(self, seconds: float = 0.0) -> float:
        self.seconds += seconds
        self.at += timedelta(seconds=seconds)
        return asyncio.run(self.certificates.step())

    def is_good(self) -> bool:
        files = self.objects.files
        pair = files["tls.crt"], files["tls.key"], files["ca.crt"]
        return not inspect(*pair, at=self.at, names=NAMES).problems

    def settle(self) -> None:
        while self.step(1.0) != LONGEST_SECONDS:
            pass


def test_an_old_authority_without_a_key_is_followed_by_one_of_ten_years_and_both_are_trusted():
    scene = Scene()
    scene.step()
    prepared = scene.objects.files
    assert prepared["tls.crt"] == FILES["tls.crt"]
    assert prepared["ca.crt"].endswith(FILES["ca.crt"])
    assert scene.objects.bundles == {prepared["ca.crt"]}
    scene.step(SPREAD_SECONDS - 1)
    assert scene.objects.files == prepared, "an API server may not have seen the bundle yet"
    scene.step(1)
    assert scene.is_good()
    assert scene.objects.files["ca.crt"] == prepared["ca.crt"]
    for _ in range(80):  # six years of leaves
        scene.at += timedelta(days=29)
        scene.step(LONGEST_SECONDS)
        assert scene.is_good()
        assert scene.objects.files["ca.key"] == prepared["ca.key"]
    scene.at += timedelta(days=400)
    scene.settle()
    assert scene.is_good()
    assert scene.objects.files["ca.key"] != prepared["ca.key"], "the authority is old itself"


SPOILT = {
    "no certificate": {"tls_crt": b"spoilt"},
    "another key": {"tls_key": OTHER.key_pem},
    "no bundle": {"ca_crt": b""},
    "another bundle": {"ca_crt": OTHER.ca_pem or b""},
    "another authority's key": {"ca_key": issue_authority(at=AT).key_pem, "tls_crt": b""},
    "nothing at all": dict.fromkeys(("tls_crt", "tls_key", "ca_crt", "ca_key"), b""),
}


@pytest.mark.parametrize("spoilt", SPOILT.values(), ids=SPOILT)
def test_a_secret_that_is_spoilt_is_mended_and_the_old_leaf_stays_trusted(spoilt):
    scene = Scene(AT, **spoilt)
    scene.settle()
    assert scene.is_good()
    (bundle,) = scene.objects.bundles
    assert bundle == scene.objects.files["ca.crt"]
    assert FILES["ca.crt"] in bundle


@pytest.mark.parametrize(
    ("path", "annotation"),
    [
        (MUTATE, "cert-manager.io/inject-ca-from"),
        (MUTATE, "service.beta.openshift.io/inject-cabundle"),
        (SECRET, "cert-manager.io/certificate-name"),
    ],
)
def test_what_somebody_else_sees_to_is_left_alone_however_old_it_is(path, annotation):
    scene = Scene()
    scene.objects.objects[path]["metadata"]["annotations"] = {annotation: "shop/theirs"}
    assert scene.step() == LONGEST_SECONDS
    assert not scene.objects.puts


def test_without_the_secret_it_is_said_what_makes_it():
    scene = Scene()
    del scene.objects.objects[SECRET]
    with pytest.raises(RefusedError, match="genguard install makes it"):
        scene.step()


YEAR = timedelta(days=365)
JUMPS = [timedelta(hours=3), YEAR, 10 * YEAR, -timedelta(hours=3), -YEAR, -10 * YEAR]


@pytest.mark.parametrize("steps", [1, 4])
@pytest.mark.parametrize("jump", JUMPS, ids=str)
def test_soon_after_a_clock_was_put_right_a_good_pair_is_served_and_trusted(jump, steps):
    scene = Scene()
    scene.at += jump
    for _ in range(steps):
        scene.step(LONGEST_SECONDS)
    scene.at -= jump
    scene.at += timedelta(hours=1)  # who has a slow clock dates an hour back
    scene.settle()
    assert scene.is_good()
    assert scene.objects.bundles == {scene.objects.files["ca.crt"]}
