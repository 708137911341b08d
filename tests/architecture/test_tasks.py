"""Every task and thread that lives on is supervised, or ends with one call of somebody who waits.

What the supervisor runs is tried by fault in integration/test_tasks.py.
"""

import ast
from collections import Counter
from collections.abc import Iterator

from tests.architecture.source import shipped

STARTS = frozenset({"create_task", "ensure_future", "TaskGroup", "Thread", "ThreadPoolExecutor"})
UNSUPERVISED = {
    "webhook.tasks.supervisor": ({"create_task": 1}, "the supervisor itself"),
    "webhook.tasks.threads": (
        {"ThreadPoolExecutor": 1},
        "who calls waits, and gets what it raises",
    ),
    "webhook.dashboard.page": ({"ThreadPoolExecutor": 1}, "a page waits for it"),
    "webhook.server.connection": (
        {"create_task": 2},
        "one handshake; one listener, which catches and logs what accepting raises",
    ),
    "webhook.server.lifecycle": ({"create_task": 1}, "the end of the server"),
    "webhook.server.recorder": (
        {"ThreadPoolExecutor": 1},
        "it drops and counts each line that fails",
    ),
    "webhook.server.overload": ({"Thread": 1}, "it ends the process"),
    "webhook.telemetry.spans": ({"Thread": 1}, "the end of the server"),
    "webhook.cluster.port_forward": ({"create_task": 1}, "one connection of a verb"),
    "webhook.cli.errors": ({"ensure_future": 1}, "the verb itself"),
    "webhook.cli.following": ({"create_task": 2}, "`next_snapshot` raises what they raise"),
    "webhook.cli.targets": ({"create_task": 1}, "one question about culprits"),
    "genguard.testing.server": ({"Thread": 2}, "the fake API server of a test"),
}
"""What starts tasks and threads without the supervisor, how often, and why it is seen to fail."""


def calls(tree: ast.Module) -> Iterator[str]:
    """The last part of the name of each function that is called."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = node.func
            if isinstance(name, ast.Attribute):
                yield name.attr
            elif isinstance(name, ast.Name):
                yield name.id


def test_no_task_or_thread_lives_on_without_the_supervisor() -> None:
    found = {
        module.name: dict(counts)
        for module in shipped()
        if (counts := Counter(name for name in calls(module.tree) if name in STARTS))
    }
    assert found == {name: counts for name, (counts, _) in UNSUPERVISED.items()}
