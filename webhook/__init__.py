"""genguard: an admission webhook that keeps generation and observedGeneration honest."""

from typing import Final

__version__: Final = "0.1.0"
