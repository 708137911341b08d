"""An honest client in a process of its own: one review after another, each answer timed.

An attack keeps the process that sends it busy; a client in the same process would time that too.
Prints the seconds that each answer took, one a line. Ends with an error at the first that is no
200, or that takes a minute.
"""

import http.client
import ssl
import sys
import time
from typing import Final

from tests.contract.hostile import GOOD

PAUSE_SECONDS: Final = 0.02
PATIENCE_SECONDS: Final = 60.0


def main(port: int, ca_file: str) -> None:
    """Send over one connection, as an API server does, until the process is ended."""
    trust = ssl.create_default_context(cafile=ca_file)
    wire = http.client.HTTPSConnection("localhost", port, context=trust, timeout=PATIENCE_SECONDS)
    wire.connect()
    wire.auto_open = 0  # a connection that the server closes is an error
    body, headers = GOOD.encode(), {"Content-Type": "application/json"}
    while True:
        begun = time.monotonic()
        wire.request("POST", "/mutate?timeout=30s", body, headers)
        answer = wire.getresponse()
        answer.read()
        assert answer.status == http.HTTPStatus.OK, answer.status
        print(time.monotonic() - begun, flush=True)
        time.sleep(PAUSE_SECONDS)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
