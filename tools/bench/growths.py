"""Every table of how a cost grows."""

from typing import Final

from tools.bench.growth import BY_JOBS, Growth
from tools.bench.others import OTHERS
from tools.bench.replicas import REPLICAS

GROWTHS: Final[tuple[Growth, ...]] = (*BY_JOBS, OTHERS, REPLICAS)
