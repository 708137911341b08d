"""Every table of how a cost grows."""

from typing import Final

from tests.bench.growth import BY_JOBS, Growth
from tests.bench.others import OTHERS
from tests.bench.replicas import REPLICAS

GROWTHS: Final[tuple[Growth, ...]] = (*BY_JOBS, OTHERS, REPLICAS)
