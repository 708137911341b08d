"""Which labels a label selector takes.

Source: apimachinery pkg/apis/meta/v1/helpers.go:LabelSelectorAsSelector.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

_OPERATORS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "In": lambda value, values: value in values,
    "NotIn": lambda value, values: value not in values,
    "Exists": lambda value, _: value is not None,
    "DoesNotExist": lambda value, _: value is None,
}


def selects(selector: Any, labels: Any) -> bool:
    """Whether a LabelSelector takes these labels; one that is absent or cannot be read, none."""
    if not isinstance(selector, Mapping):
        return False
    have: Mapping[str, Any] = labels if isinstance(labels, Mapping) else {}
    wanted, asked = selector.get("matchLabels"), selector.get("matchExpressions")
    wanted, asked = {} if wanted is None else wanted, [] if asked is None else asked
    if not isinstance(wanted, Mapping) or not isinstance(asked, list):
        return False
    return all(have.get(key) == value for key, value in wanted.items()) and all(
        _holds(one, have) for one in asked
    )


def _holds(expression: Any, labels: Mapping[str, Any]) -> bool:
    if not isinstance(expression, Mapping):
        return False
    operator = _OPERATORS.get(str(expression.get("operator")))
    values = expression.get("values")
    value = labels.get(str(expression.get("key")))
    return operator is not None and operator(value, values if isinstance(values, list) else [])
