"""Every task and thread that lives on is supervised, or ends with one call of somebody who waits.

What the supervisor runs is tried by fault in integration/test_tasks.py.
"""

import ast
from collections import Counter
from collections.abc import Iterator

from tests.architecture.source import shipped
from tests.cases_loader import read_beside

STARTS = frozenset({"create_task", "ensure_future", "TaskGroup", "Thread", "ThreadPoolExecutor"})
UNSUPERVISED = read_beside(__file__, "unsupervised.yaml")
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
