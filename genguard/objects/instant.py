"""Times compared by instant, as apimachinery's semantic equality does.

Source: apimachinery pkg/api/equality/semantic.go; pkg/apis/meta/v1/time.go and micro_time.go.
"""

from datetime import datetime


def parse_time(text: str) -> datetime | None:
    """An RFC 3339 time with its offset, or None when the text is no such time."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return time if time.tzinfo is not None else None


def same_instant(a: object, b: object) -> bool:
    """Equal when both name the same instant; what does not parse is equal only to itself."""
    if type(a) is type(b) and a == b:
        return True
    if not (isinstance(a, str) and isinstance(b, str)):
        return False
    left, right = parse_time(a), parse_time(b)
    return left is not None and left == right
