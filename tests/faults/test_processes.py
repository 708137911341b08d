"""genguard's processes are ended, killed and hung under load: what users are told, and when.

With `failurePolicy: Ignore` nobody is told anything, ever. With `Fail` nobody is told anything when
it ends as a kubelet ends it. A process that is killed or hangs cannot answer what it has been
asked, and an API server does not ask again (only 429 and 5xx with Retry-After: client-go
rest/with_retry.go): there writes may fail while it is lost, and none after that.
"""

import os
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from tests.controlplane.client import wait_until
from tests.controlplane.fixtures import NamespaceFactory
from tests.controlplane.plane import ControlPlane
from tests.e2e.genguard import Genguard
from tests.e2e.registrations import registered
from tests.e2e.traffic import PATIENCE, Traffic, passed_unseen
from tests.faults.fleet import Fleet

WRITES = int(os.environ.get("GENGUARD_FAULTS_WRITES", "2000"))
"""While ten replicas end; `make faults` takes the 10,000 of a release."""
ENDS = 10
ENDPOINT_SECONDS = 1.0
"""How much later than a pod whose end has begun its endpoint goes."""
TIMEOUT = 2
"""timeoutSeconds of the manifests."""
HUNG_SECONDS = 2.0 * TIMEOUT
"""Until a replica that hangs is no endpoint."""


@pytest.fixture(scope="module")
def fleet() -> Iterator[Fleet]:
    with Fleet() as running:
        yield running


def test_ten_replicas_end_one_after_the_other_and_no_write_fails(
    apiserver: ControlPlane, namespace: NamespaceFactory, fleet: Fleet
) -> None:
    """A rolling update as the manifests have it: a new pod is ready before an old one goes."""
    name = namespace(apiserver)
    ended: list[Genguard] = []
    with (
        registered(apiserver, name, fleet, failurePolicy="Fail", timeoutSeconds=PATIENCE),
        Traffic(apiserver, name) as traffic,
    ):
        began = time.monotonic()
        for number in range(ENDS):
            fleet.add()
            old = fleet.endpoints[0]
            old.terminate()
            ended.append(old)
            time.sleep(ENDPOINT_SECONDS)
            fleet.remove(old)
            wait_until(
                lambda share=number + 1: traffic.written >= WRITES * share // ENDS,
                600,
                what="writes",
            )
        assert [guard.wait() for guard in ended] == [0] * ENDS
        seconds = time.monotonic() - began
    assert traffic.failures == []
    print(f"{ENDS} ends, {traffic.written} writes in {seconds:.0f} s, none failed")


class Blow(NamedTuple):
    """What happens to one of three, and for how long it is an endpoint all the same."""

    begin: Callable[[Fleet, Genguard], None]
    end: Callable[[Fleet, Genguard], None]
    seconds: float


def _replace(fleet: Fleet, guard: Genguard) -> None:
    """Another one is started in its place."""
    fleet.add()


def _go_on(fleet: Fleet, guard: Genguard) -> None:
    """It finds requests whose clients have gone, and is ready again."""
    guard.go_on()
    wait_until(lambda: guard.ops("/readyz")[0] == 200, what="ready again")
    fleet.take(guard)


BLOWS = {
    "killed": Blow(lambda _, one: one.kill(), _replace, ENDPOINT_SECONDS),
    # Connections that are open stay with it, so it is lost until it goes on or is killed.
    "hung": Blow(lambda _, one: one.pause(), _go_on, HUNG_SECONDS),
}


@pytest.mark.parametrize("policy", ["Ignore", "Fail"])
@pytest.mark.parametrize("name", BLOWS)
def test_while_one_of_three_is_lost_writes_fail_by_fail_alone_and_afterwards_none_does(
    apiserver: ControlPlane, namespace: NamespaceFactory, fleet: Fleet, name: str, policy: str
) -> None:
    """With Ignore some writes pass unseen, for as long: GenguardFailOpen alerts on that."""
    blow, where = BLOWS[name], namespace(apiserver)
    with (
        registered(apiserver, where, fleet, failurePolicy=policy, timeoutSeconds=TIMEOUT),
        Traffic(apiserver, where) as traffic,
    ):
        traffic.more(100)
        assert traffic.failures == []
        before = passed_unseen(apiserver)
        victim = fleet.endpoints[0]
        assert victim.metric("genguard_reviews_total", resource="podtemplates") > 0
        blow.begin(fleet, victim)
        time.sleep(blow.seconds)
        fleet.remove(victim)
        traffic.more(10)
        blow.end(fleet, victim)
        time.sleep(TIMEOUT)  # for the calls that were on their way to it
        unseen, failed = passed_unseen(apiserver), len(traffic.failures)
        traffic.more(200)
        assert len(traffic.failures) == failed
        assert passed_unseen(apiserver) == unseen
    if policy == "Ignore":
        assert traffic.failures == []
    else:
        assert all(one.by_webhook for one in traffic.failures)
        assert unseen == before
    if name == "hung":  # of one that was killed there may have been no call on its way
        assert failed > 0 if policy == "Fail" else unseen > before
    print(f"{traffic.written} writes, {failed} failed, {unseen - before:g} calls passed unseen")
