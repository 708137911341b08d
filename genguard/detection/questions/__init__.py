"""Questions about the writes of an object: one a file, which names at its end what it finds."""

from typing import Final

from genguard.detection.question import Declared, Question
from genguard.detection.questions.chases import Chases
from genguard.detection.questions.children import Children
from genguard.detection.questions.lost import Lost
from genguard.detection.questions.numbers import Numbers
from genguard.detection.questions.recreations import Recreations
from genguard.detection.questions.refused import Refused
from genguard.detection.questions.restless import Restless
from genguard.detection.questions.reversals import Reversals
from genguard.detection.questions.stripped import Stripped
from genguard.detection.questions.unstable import Unstable

ALL: Final[tuple[type[Question], ...]] = (
    Lost,
    Stripped,
    Reversals,
    Restless,
    Recreations,
    Children,
    Refused,
    Unstable,
    Numbers,
    Chases,
)
FINDINGS: Final[dict[str, Declared]] = {
    finding.name: finding for each in ALL for finding in each.findings
}
"""Every finding that there is, by name."""
