"""What the tests of detection have in common."""

import pytest


@pytest.fixture(autouse=True)
def every_write_is_compared(monkeypatch):
    """As if each object were a suspect; test_suspect_objects.py tests which are."""
    monkeypatch.setattr("genguard.detection.detection.COUNTED_WRITES", 0)
