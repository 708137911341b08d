"""What is asked: the recorded reviews, or one of them for many objects."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from tools.bench.corpus import Recorded, mean_bytes, read_corpus

RECORDED: Final = "recorded"
STATUS: Final = "status"


def _status_update() -> Sequence[Recorded]:
    corpus = read_corpus()
    mean = mean_bytes(corpus)
    updates = [one for one in corpus if one.write == "UPDATE status"]
    return [min(updates, key=lambda one: abs(len(one.body) - mean))]


REVIEWS: Final[Mapping[str, Callable[[], Sequence[Recorded]]]] = {
    RECORDED: read_corpus,
    STATUS: _status_update,
}
