"""see(): reviews in, findings out, pure; the server feeds it off the answer path, replay inline."""

from typing import Final

import msgspec

from webhook.admission.review import Phase
from webhook.detection.assemble import Reviewed
from webhook.detection.correlate import Correlator
from webhook.detection.detectors import ALL, Detector
from webhook.detection.finding import Finding
from webhook.detection.history import History
from webhook.detection.ledger import Ledger
from webhook.detection.suspects import Suspects
from webhook.detection.write import Write


class Detection:
    """Everything that is remembered to tell a loop from a write."""

    def __init__(
        self,
        suspects: Suspects | None = None,
        detectors: tuple[Detector, ...] = ALL,
        history: History | None = None,
    ) -> None:
        self._suspects: Final = suspects or Suspects()
        self._detectors: Final = detectors
        self._correlator: Final = Correlator(self._suspects)
        self.history: Final = History() if history is None else history
        self.ledger: Final = Ledger(self._suspects)
        self.unreadable = 0

    def see(self, phase: Phase, reviewed: Reviewed, now: float) -> None:
        """Take in one review; `now` is seconds since the epoch. Never raises."""
        try:
            for write in self._correlator.see(phase, reviewed, now):
                self._judge(write)
        except (msgspec.MsgspecError, RecursionError):
            self.unreadable += 1

    def finish(self, now: float) -> None:
        """At the end of a recording: judge what waits for its next phase, resolve what is quiet."""
        try:
            for write in self._correlator.finish():
                self._judge(write)
        except (msgspec.MsgspecError, RecursionError):
            self.unreadable += 1

        self.settle(now)

    def settle(self, now: float) -> tuple[Finding, ...]:
        """Resolve what has been quiet for long enough; these findings."""
        return tuple(self.ledger.settle(now))

    def findings(self) -> tuple[Finding, ...]:
        """Everything found, oldest first."""
        return self.ledger.findings()

    def _judge(self, write: Write) -> None:
        past = self.history.of(write.object)
        for stored in past.confirm(write.base, write.state_before):
            for detector in self._detectors:
                for sign in detector.stored(stored, past):
                    self.ledger.add(detector.name, sign, stored)
        self.history.add(past, write)
        if write.asked and write.others == ():
            self._suspects.acquit(write.matched)
        for detector in self._detectors:
            for sign in detector.asked(write, past):
                self.ledger.add(detector.name, sign, write)
