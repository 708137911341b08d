"""YAML read as kubectl reads it: what becomes of `on`, `1.0`, `0777`, times and keys.

Source: sigs.k8s.io/yaml yaml.go:YAMLToJSON; go.yaml.in/yaml/v2 resolve.go and decode.go.
"""

import base64
import math
import re
from collections.abc import Mapping
from typing import Any, ClassVar, Final

import yaml
from yaml.constructor import BaseConstructor, ConstructorError

try:
    from yaml import CSafeLoader as _Loader
except ImportError:  # a PyYAML that was built without libyaml
    from yaml import SafeLoader as _Loader  # type: ignore[assignment]


def _cases(word: str) -> tuple[str, str, str]:
    return word, word.capitalize(), word.upper()


_WORDS: Final[Mapping[str, Any]] = {
    **dict.fromkeys(["y", "Y", *_cases("yes"), *_cases("true"), *_cases("on")], True),
    **dict.fromkeys(["n", "N", *_cases("no"), *_cases("false"), *_cases("off")], False),
    **dict.fromkeys(["", "~", *_cases("null")]),
    **dict.fromkeys([".nan", ".NaN", ".NAN"], math.nan),
    **dict.fromkeys([".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"], math.inf),
    **dict.fromkeys(["-.inf", "-.Inf", "-.INF"], -math.inf),
}
_NUMBER_STARTS: Final = frozenset("0123456789+-.")
_INTEGER: Final = re.compile(
    r"([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]?([0-7]+)|(0|[1-9][0-9]*))"
)
_BASES: Final = (16, 2, 8, 10)
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_WITHOUT_EXPONENT: Final = 1e21
"""Go encoding/json encode.go:floatEncoder."""
_PREFIX: Final = "tag:yaml.org,2002:"
_DEEPEST: Final = 500
"""libyaml's own recursion has no limit: the process would end."""
_MOST_REPEATED: Final = 400_000
"""Values of a document of which more than a tenth may be repeated by aliases, about as in Go
(yaml.v2 decode.go:allowedAliasRatio): some lines could stand for billions of values."""
_PLAIN: Final = "plain"
"""The tag of what is written without quotes and tag, and so may be more than a text."""


def load_document(content: bytes) -> Any:
    """The JSON value of one document; None where there is none.

    Raises yaml.YAMLError, ValueError and RecursionError.
    """
    return yaml.load(content, Loader=_KubeLoader)  # noqa: S506 - a SafeLoader


def _size(node: yaml.Node, sizes: dict[int, int]) -> int:
    """How many values a node stands for, its aliases followed; `sizes` of those known by id."""
    if id(node) not in sizes:
        sizes[id(node)] = 1  # a node that holds itself is an error when it is constructed
        if isinstance(node, yaml.MappingNode):
            sizes[id(node)] += sum(_size(one, sizes) for pair in node.value for one in pair)
        elif isinstance(node, yaml.SequenceNode):
            sizes[id(node)] += sum(_size(one, sizes) for one in node.value)
    return sizes[id(node)]


class _KubeLoader(_Loader):
    """Gives what Go's encoding/json can write: no times, no sets, keys that are texts."""

    _depth = 0

    def descend_resolver(self, *_: Any) -> None:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise RecursionError

    def ascend_resolver(self) -> None:
        self._depth -= 1

    def get_single_node(self) -> yaml.Node | None:
        node = super().get_single_node()
        sizes: dict[int, int] = {}
        values = 0 if node is None else _size(node, sizes)
        if values > _MOST_REPEATED and len(sizes) < values * 0.9:
            raise ConstructorError(None, None, "the document is repeated by aliases too often")
        return node

    def text(self, node: yaml.Node) -> str:
        # Not that of SafeConstructor, which takes a text out of some mappings.
        return str(BaseConstructor.construct_scalar(self, node))  # type: ignore[arg-type]

    def plain(self, node: yaml.Node) -> Any:
        return _plain(self.text(node))

    def binary(self, node: yaml.Node) -> str:
        return base64.b64decode(self.text(node)).decode("utf-8", "replace")

    def sequence(self, node: yaml.Node) -> list[Any]:
        # All at once, unlike PyYAML: an anchor that holds itself is an error, as in Go.
        return self.construct_sequence(node, deep=True)  # type: ignore[arg-type]

    def mapping(self, node: yaml.Node) -> dict[str, Any]:
        if isinstance(node, yaml.MappingNode):
            self.flatten_mapping(node)
        return {_key(key): value for key, value in self.construct_pairs(node, deep=True)}

    yaml_constructors: ClassVar[dict[str | None, Any]] = {
        None: yaml.SafeLoader.construct_undefined,
        _PLAIN: plain,
        f"{_PREFIX}null": plain,
        f"{_PREFIX}bool": plain,
        f"{_PREFIX}int": plain,
        f"{_PREFIX}float": plain,
        f"{_PREFIX}str": text,
        f"{_PREFIX}timestamp": text,
        f"{_PREFIX}binary": binary,
        f"{_PREFIX}seq": sequence,
        f"{_PREFIX}map": mapping,
    }


_KubeLoader.yaml_implicit_resolvers = {
    "<": [(f"{_PREFIX}merge", re.compile(r"<<\Z"))],
    None: [(_PLAIN, re.compile(""))],
}
"""What a scalar without quotes and tag is, by its first sign: nothing of PyYAML's own is asked."""


def _plain(text: str) -> Any:
    if text in _WORDS:
        return _json_number(_WORDS[text])
    if text[0] not in _NUMBER_STARTS:
        return text
    digits = text if text[0] == "." else text.replace("_", "")
    if match := _INTEGER.fullmatch(digits):
        sign, *found = match.groups()
        ((base, number),) = (pair for pair in zip(_BASES, found, strict=True) if pair[1])
        return int(sign + number, base)
    number = float(digits) if _FLOAT.fullmatch(digits) else math.inf
    return text if math.isinf(number) else _json_number(number)


def _json_number(value: Any) -> Any:
    """A whole float is written without a fraction on the way through JSON, and read as integer."""
    if not isinstance(value, float):
        return value
    if not math.isfinite(value):
        raise ValueError("not a number of JSON")
    return int(value) if value.is_integer() and abs(value) < _WITHOUT_EXPONENT else value


def _key(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int | float):
        return str(value)
    raise ValueError("a key that is no text")
