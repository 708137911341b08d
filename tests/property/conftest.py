"""Hypothesis: the same examples at every run, or new and many of them with GENGUARD_EXPLORE=1."""

import os

from hypothesis import HealthCheck, settings

_SLOW_MACHINES = [HealthCheck.too_slow, HealthCheck.data_too_large]
settings.register_profile(
    "proved",
    derandomize=True,
    deadline=None,
    max_examples=200,
    suppress_health_check=_SLOW_MACHINES,
)
settings.register_profile(
    "explore", deadline=None, max_examples=5_000, print_blob=True,
    suppress_health_check=_SLOW_MACHINES,
)  # fmt: skip
settings.load_profile("explore" if os.environ.get("GENGUARD_EXPLORE") else "proved")
