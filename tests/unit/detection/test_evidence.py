"""What speaks for and against each of several webhooks, and when it is more than chance."""

import pytest

from genguard.detection.evidence import BlameScore, ResourceKind

HERE, ELSEWHERE = (ResourceKind("apps", one, "status") for one in ("deployments", "replicasets"))
NOBODY_KNOWS = BlameScore(True, 0, 0, 0, 0)


@pytest.mark.parametrize(
    ("one", "other", "stands_out", "because"),
    [
        ({}, {}, False, "nothing tells them apart"),
        ({"unproved": False}, {}, True, "it stood alone in another finding"),
        ({}, {"unharmed_here": 1}, False, "once is chance"),
        ({}, {"unharmed_here": 2}, True, "the other left two writes here alone"),
        ({"unharmed_here": 1}, {"unharmed_here": 4}, False, "not two and three times as many"),
        ({"unharmed_here": 1}, {"unharmed_here": 5}, True, "two and three times as many"),
        ({}, {"unharmed_elsewhere": 1}, False, "once is chance elsewhere, too"),
        ({}, {"unharmed_elsewhere": 2}, True, "twice is not"),
        ({"unharmed_elsewhere": 1}, {"unharmed_elsewhere": 4}, False, "not yet so many"),
        ({"unharmed_elsewhere": 1}, {"unharmed_elsewhere": 5}, True, "so many"),
        ({"alone_in": -2}, {"alone_in": -1}, True, "it was there in more of such findings"),
        ({"alone_in": -1}, {"alone_in": -2}, False, "it was there in fewer"),
        ({"alone_in": -2}, {"alone_in": -1, "doubtful": 1}, False, "of the other less is known"),
    ],
)
def test_who_stands_out_from_another(one, other, stands_out, because):
    first, second = (NOBODY_KNOWS._replace(**known) for known in (one, other))
    assert first.stands_out_from(second) is stands_out, because
