"""The ConfigMap of --rules: every content is taken, and what is not there is told."""

import asyncio

from genguard.objects.fields import fields_of
from tests.unit.server.test_judged import until
from webhook.cluster.rules_configmap import _Following
from webhook.cluster.watch import Change, ChangeKind


def seen(**data):
    return Change(ChangeKind.SEEN, "u", fields_of({"metadata": {}, "data": data or None}))


async def test_each_content_is_taken_and_a_deletion_too():
    taken = []
    following = _Following("shop/rules", taken.append)
    task = asyncio.create_task(following.run())
    for change, content in [
        (seen(a="rules: []"), {"a": "rules: []"}),
        (seen(), {}),
        (Change(ChangeKind.GONE, "u"), None),
    ]:
        following.on_change(change)
        await until(lambda wanted=content: taken and taken[-1] == wanted)
    task.cancel()
    assert len(taken) == 3


async def test_a_configmap_that_is_not_there_is_told(caplog):
    following = _Following("shop/rules", lambda _: None)
    following.on_change(Change(ChangeKind.CAUGHT_UP))
    assert caplog.records[0].facts == {"configMap": "shop/rules", "reason": "it does not exist"}
    caplog.clear()
    following.on_change(seen(a=""))
    following.on_change(Change(ChangeKind.CAUGHT_UP))
    assert not caplog.records
