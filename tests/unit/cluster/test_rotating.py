"""How a shared pair is renewed in the objects of a cluster, and what is told of it."""

import asyncio
import base64
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from certs import Leave, Spread, Wait, inspect, renew, service_names
from certs.rotation import LONGEST_SPREAD
from tests.unit.cluster.turns import NAMESPACE, SECRET, Caller, Objects
from tests.waiting import patiently
from webhook.cluster.certificate_rotation import RotatedSecret, Rotation, Rotator
from webhook.cluster.rest import RefusedError
from webhook.manifest.documents import path_of
from webhook.manifest.rendering import REGISTRATIONS, registration_of

AT = datetime(2026, 5, 1, tzinfo=UTC)
NAMES = service_names("genguard", NAMESPACE)
LIFE = timedelta(days=30)
PAIR = renew(None, names=NAMES, at=AT, leaf_lifetime=LIFE).pair
FILES = {"tls.crt": PAIR.cert_pem, "tls.key": PAIR.key_pem, "ca.crt": PAIR.ca_pem or b""}
MUTATE = path_of(registration_of(*REGISTRATIONS[1]))
DUE = AT + timedelta(days=25)


def cluster(at: datetime = DUE) -> Objects:
    return Objects(FILES, FILES["ca.crt"], at)


def rotator(objects: Objects) -> Rotator:
    rotated = RotatedSecret(NAMESPACE, "genguard-tls", NAMES, LIFE)
    return Rotator(objects, rotated, lambda: objects.at)


def names_of(steps):
    """What each step is, or what it has done to the Secret."""
    return [getattr(step, "done", type(step)) for step in steps]


def test_a_new_authority_takes_four_steps_and_a_new_leaf_of_it_one():
    objects = cluster()
    caller = Caller(rotator(objects).take_step)
    steps = [caller.round() for _ in range(3)]
    objects.at = steps[-1].until
    steps += [caller.round() for _ in range(2)]
    assert names_of(steps) == ["prepared", Spread, Wait, "promoted", Wait]
    first = objects.files
    assert first["tls.crt"] != FILES["tls.crt"]
    assert objects.bundles(objects.at) == {first["ca.crt"]}
    objects.at = steps[-1].until  # the old authority has ended
    assert names_of(caller.round() for _ in range(3)) == ["tidied", Spread, Wait]
    bundle = objects.files["ca.crt"]
    assert bundle + FILES["ca.crt"] == first["ca.crt"]
    objects.at = caller.last.until
    before = objects.at
    assert names_of(caller.round() for _ in range(2)) == ["promoted", Wait]
    assert objects.files["tls.crt"] != first["tls.crt"]
    assert objects.files["ca.crt"] == bundle
    assert objects.bundles(before) == {bundle}


def test_whoever_takes_over_waits_from_its_own_first_look():
    objects = cluster()
    first = Caller(rotator(objects).take_step)
    while not isinstance(first.round(), Wait):
        pass
    objects.at += LONGEST_SPREAD
    assert isinstance(Caller(rotator(objects).take_step).round(), Wait)
    assert names_of([first.round()]) == ["promoted"]


def test_a_registration_that_was_changed_in_between_is_waited_for_anew():
    objects = cluster()
    caller = Caller(rotator(objects).take_step)
    while not isinstance(caller.round(), Wait):
        pass
    bundle = objects.files["ca.crt"]
    objects.trust(FILES["ca.crt"])
    objects.trust(bundle)
    objects.at += LONGEST_SPREAD
    assert caller.round() == Wait(objects.at + LONGEST_SPREAD)


def test_only_the_bundle_of_a_registration_is_changed():
    objects = cluster(AT)
    live = objects.now(MUTATE)
    (webhook,) = live["webhooks"]
    client = {"caBundle": "", "service": {"name": "genguard", "path": "/mutate"}}
    webhook |= {"clientConfig": client, "timeoutSeconds": 7}
    objects.versions[MUTATE].append((AT, live | {"mine": "kept"}))
    others = {path: len(versions) for path, versions in objects.versions.items() if path != MUTATE}
    assert Caller(rotator(objects).take_step).round() == Spread(FILES["ca.crt"])
    assert all(len(objects.versions[path]) == count for path, count in others.items())
    after = objects.now(MUTATE)
    assert after["mine"] == "kept"
    (after,) = after["webhooks"]
    assert base64.b64decode(after["clientConfig"].pop("caBundle")) == FILES["ca.crt"]
    del webhook["clientConfig"]["caBundle"]
    assert after == webhook


@pytest.mark.parametrize(
    ("path", "annotation"),
    [
        (MUTATE, "cert-manager.io/inject-ca-from"),
        (MUTATE, "service.beta.openshift.io/inject-cabundle"),
        (SECRET, "cert-manager.io/certificate-name"),
    ],
)
def test_what_somebody_else_sees_to_is_left_alone_however_old_it_is(path, annotation):
    objects = cluster()
    live = objects.now(path)
    live["metadata"]["annotations"] = {annotation: "shop/theirs"}
    objects.versions[path].append((DUE, live))
    before = {path: len(versions) for path, versions in objects.versions.items()}
    step = Caller(rotator(objects).take_step).round()
    assert isinstance(step, Leave)
    assert annotation in step.reason
    assert before == {path: len(versions) for path, versions in objects.versions.items()}


def test_registrations_that_are_not_there_are_not_waited_for():
    objects = cluster()
    for kind, name in REGISTRATIONS:
        del objects.versions[path_of(registration_of(kind, name))]
    caller = Caller(rotator(objects).take_step)
    assert names_of(caller.round() for _ in range(3)) == ["prepared", "promoted", Wait]


def test_without_the_secret_there_is_nothing_to_renew():
    objects = cluster()
    del objects.versions[SECRET]
    with pytest.raises(RefusedError, match="not found"):
        Caller(rotator(objects).take_step).round()


class Leading:
    is_leader = True
    vacant_since = 0.0


async def test_trouble_is_told_once_and_counts_while_this_replica_leads(caplog):
    objects, leading = cluster(), Leading()
    held = objects.versions.pop(SECRET)
    rotation = Rotation(rotator(objects), leading, lambda: objects.at)
    running = asyncio.create_task(rotation.run())

    async def until(done):
        async with patiently():
            while not done():
                rotation.wake()
                await asyncio.sleep(0)

    await until(lambda: rotation.is_failing)
    for _ in range(50):
        rotation.wake()
        await asyncio.sleep(0)
    assert [record.message for record in caplog.records] == ["certificate not rotated"]
    (told,) = caplog.records
    assert "genguard install makes it" in told.facts["reason"]
    leading.is_leader = False
    assert not rotation.is_failing
    leading.is_leader = True
    objects.versions[SECRET] = held
    await until(lambda: "ca.key" in objects.files)
    assert not rotation.is_failing
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_an_answer_that_is_no_json_is_waited_out_as_any_other_trouble(caplog):
    """A proxy in between may say anything."""
    objects = cluster()

    class Garbled:
        healthy = False

        async def call(self, method, path, body=None, *, params=None):
            if not self.healthy:
                return msgspec.json.decode(b"<html>")
            return await objects.call(method, path, body, params=params)

    garbled = Garbled()
    rotated = RotatedSecret(NAMESPACE, "genguard-tls", NAMES, LIFE)
    asking = Rotator(garbled, rotated, lambda: objects.at)
    rotation = Rotation(asking, Leading(), lambda: objects.at)
    running = asyncio.create_task(rotation.run())
    async with patiently():
        while "ca.key" not in objects.files:
            garbled.healthy = rotation.is_failing or garbled.healthy
            rotation.wake()
            await asyncio.sleep(0)
    assert "certificate not rotated" in [record.message for record in caplog.records]
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_who_does_not_lead_does_not_look():
    objects, leading = cluster(), Leading()
    leading.is_leader = False
    rotation = Rotation(rotator(objects), leading, lambda: objects.at)
    running = asyncio.create_task(rotation.run())
    for _ in range(50):
        rotation.wake()
        await asyncio.sleep(0)
    assert objects.files == FILES
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


YEAR = timedelta(days=365)
JUMPS = [timedelta(hours=3), YEAR, 10 * YEAR, -timedelta(hours=3), -YEAR, -10 * YEAR]


@pytest.mark.slow
@pytest.mark.parametrize("looks", [1, 4])
@pytest.mark.parametrize("rounds", range(5))
@pytest.mark.parametrize("jump", JUMPS, ids=str)
def test_within_an_hour_after_a_clock_was_put_right_a_good_pair_is_served_and_trusted(
    jump, rounds, looks
):
    objects = cluster()
    caller = Caller(rotator(objects).take_step)
    for _ in range(rounds):
        caller.round()
    right, objects.at = objects.at, objects.at + jump
    for _ in range(looks):
        caller.round()
        objects.at += LONGEST_SPREAD
    objects.at = right + (looks + 1) * LONGEST_SPREAD
    while objects.at < right + timedelta(hours=1):
        step = caller.round()
        if isinstance(step, Wait):
            objects.at += LONGEST_SPREAD
    files = objects.files
    served = inspect(
        files["tls.crt"], files["tls.key"], files["ca.crt"], at=objects.at, names=NAMES
    )
    assert served.problems == ()
    latest = datetime.max.replace(tzinfo=UTC)
    assert objects.bundles(latest) == {files["ca.crt"]}
