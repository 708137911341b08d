"""Runs `genguard serve` with more patience for slow clients than an admission has.

python -m tests.contract.patient serve ...

The deadlines of a server that is shipped are too short for clients that share two cores with it and
with other tests. Tests of what clients get want an answer; tests of the deadlines do not.
"""

import sys
from dataclasses import replace

from tests.waiting import PATIENCE
from webhook.cli import main
from webhook.serve import app
from webhook.server.options import Limits, fit


def _patient(limits: Limits, descriptors: int) -> Limits:
    return replace(
        fit(limits, descriptors),
        handshake_seconds=PATIENCE,
        header_seconds=PATIENCE,
        body_seconds=PATIENCE,
    )


if __name__ == "__main__":
    app.fit = _patient
    main(sys.argv[1:])
