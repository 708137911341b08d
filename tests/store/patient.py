"""Runs `genguard serve` with more patience for its store than an admission has.

python -m tests.store.patient SECONDS python -m webhook serve ...

The 20 ms of a server that is shipped are too few where two cores run an API server, three replicas
and other tests. Tests of what is shared want an answer; tests of a store that is lost do not.
"""

import sys

from webhook.cli import main
from webhook.store import client

SELDOM_SLOW = (sys.executable, "-m", "tests.store.patient", "0.25")
"""An answer that a test holds back for half a second is too late."""

if __name__ == "__main__":
    _, seconds, _, _, _, *arguments = sys.argv
    client.ANSWER_SECONDS = float(seconds)  # type: ignore[misc]
    main(arguments)
