"""Scenarios that are lists of steps, as YAML in scripts/: who writes what, alternately.

    label-of-two-wills:
      hooks: [{name: mmm-tidy, patch: !culprit takes_finalizers_away, resources: [deployments]}]
      steps:
      - {create: apps/v1/deployments, body: !deployment {name: web}}
      - times: 14
        steps:
        - {spec: {replicas: !each [3, 5]}, by: !each [gitops, autoscaler], pause: 0.1}

A step is a method of Play, with its first argument; `pause` are the seconds after it. It is done
only `when` a condition holds, and may be `refused`. `to` is the object that it writes, otherwise
the one that was made last. `!each` takes its next value in each round, from the first one again
after the last. `!is` is an expression of Jinja of what is known then: `turn`, `tick()`, each object
by its name, all of them as `made`, and as `found` what was read before a put.
"""

import copy
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import yaml
from jinja2 import Environment, Undefined
from jinja2.environment import TemplateExpression

from genguard.objects.fields import from_pointer
from genguard.patch.merge import merge_patch
from tests.controlplane.client import ApiError
from tests.e2e.culprits import deployment, pod
from tests.scenarios import culprits, refusing
from tests.scenarios.catalogue import Scenario, enter
from tests.scenarios.scene import (
    Hook,
    Json,
    Policy,
    Scene,
    Stored,
    condition,
    set_condition,
    set_taint,
)

FOLDER: Final = Path(__file__).with_name("scripts")
_FILLED_LATER = ("put", "put_old", "wait_for", "steps")
_JINJA = Environment(autoescape=True)
Steps = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class _Each:
    values: list[Any]


@dataclass(slots=True)
class Play:
    """One run of a script: what was made, and the number of the round."""

    scene: Scene
    made: dict[str, Stored] = field(default_factory=dict)
    last: str = ""
    old: Json = field(default_factory=dict)
    turn: int = 0

    def act(self, steps: Steps) -> None:
        for step in steps:
            given = {k: v if k in _FILLED_LATER else self._filled(v) for k, v in step.items()}
            seconds, is_due = given.pop("pause", None), given.pop("when", True)
            with suppress(ApiError) if given.pop("refused", False) else nullcontext():
                if given and is_due:
                    verb, *_ = given
                    getattr(self, verb)(given.pop(verb), **given)
            if seconds:
                self.scene.pause(seconds)

    def times(self, number: int, steps: Steps) -> None:
        for self.turn in range(number):
            self.act(steps)

    def within(self, refuses: Json, steps: Steps) -> None:
        """What refusing.py has is in force meanwhile."""
        ((name, arguments),) = refuses.items()
        with getattr(refusing, name)(self.scene, *arguments):
            self.act(steps)

    def create(
        self, collection: str, body: Json, by: str = "deployer", named: str = "", **params: Any
    ) -> None:
        """What is `named` otherwise in the script has a name that another kind has."""
        self._keep(self.scene.create(collection, body, by, **params), named)

    def widget(self, name: str, **spec: Any) -> None:
        self._keep(self.scene.widget(name, **spec))

    def gauge(self, name: str) -> None:
        self._keep(self.scene.gauge(name))

    def lens(self, version: str) -> None:
        self._keep(self.scene.lens(version))

    def node(self, name: str) -> None:
        """It has the name of the namespace; `name` is for the script."""
        self._keep(self.scene.node(), name)

    def stored(self, collection: str, name: str, named: str) -> None:
        """An object that is there."""
        self._keep(self.scene.stored(collection, name), named)

    def child_of(self, parent: str) -> None:
        self._keep(self.scene.child_of(self.made[parent]))

    def quota(self, pods: int) -> None:
        refusing.quota(self.scene, pods)

    def patch(self, body: Json, by: str, to: str = "", **more: Any) -> None:
        self._object(to).patch(by, body, **more)

    def strategic(self, body: Json, by: str) -> None:
        self._object().strategic(by, body)

    def spec(self, fields: Json, by: str, to: str = "") -> None:
        self._object(to).spec(by, **fields)

    def status(self, fields: Json, by: str, to: str = "") -> None:
        self._object(to).status(by, **fields)

    def put(self, fields: Json, by: str, to: str = "", subresource: str = "") -> None:
        """Set fields of what is there by their JSON Pointers; null takes one away."""
        self._object(to).put(by, partial(self._set, fields), subresource)

    def remember(self, name: str) -> None:
        self.old = self.made[name].get()

    def put_old(self, fields: Json, by: str, subresource: str = "") -> None:
        """The same of what was remembered, whatever has come meanwhile."""
        old = copy.deepcopy(self.old)
        self._set(fields, old)
        path = "/".join(filter(None, (self._object().path, subresource)))
        self.scene.plane.client.as_user(by, ["system:masters"]).put(path, old)

    def condition(self, fields: Json, by: str) -> None:
        self._object().put_status(by, partial(set_condition, new=condition(**fields)))

    def taint(self, key: str, by: str, *, is_there: bool = True) -> None:
        self._object().put(by, partial(set_taint, key=key, is_there=is_there))

    def delete(self, name: str, by: str) -> None:
        self.made[name].delete(by)

    def make_way(self, name: str, by: str) -> None:
        self.scene.make_way(by, self.made.get(name))

    def wait_for(self, holds: TemplateExpression) -> None:
        self._object().wait_for(partial(self._filled, holds))

    def wait_until_gone(self, name: str) -> None:
        self.made[name].wait_until_gone()

    def wait_until_none(self, collection: str) -> None:
        self.scene.wait_until_none(collection)

    def delete_all(self, collection: str, by: str) -> None:
        self.scene.delete_all(collection, by)

    def kubectl(self, arguments: list[str]) -> None:
        self.scene.kubectl(*arguments)

    def _keep(self, made: Stored, named: str = "") -> None:
        self.last = named or made.path.rpartition("/")[2]
        self.made[self.last] = made

    def _set(self, fields: Json, found: Json) -> None:
        for pointer, value in self._filled(fields, found).items():
            *above, last = from_pointer(pointer)
            inner: Any = found
            for name in above:
                inner = inner[int(name)] if isinstance(inner, list) else inner.setdefault(name, {})
            inner[last] = value
            if value is None:
                del inner[last]

    def _object(self, to: str = "") -> Stored:
        return self.made[to or self.last]

    def _filled(self, value: Any, found: Json | None = None) -> Any:
        match value:
            case _Each():
                return self._filled(value.values[self.turn % len(value.values)], found)
            case TemplateExpression():
                known = {"turn": self.turn, "tick": self.scene.tick, "made": self.made}
                answer = value({**self.made, **known, "found": found})
                if isinstance(answer, Undefined):
                    raise KeyError(answer._undefined_name)
                return answer
            case dict():
                return {key: self._filled(one, found) for key, one in value.items()}
            case list():
                return [self._filled(one, found) for one in value]
        return value


class _Loader(yaml.CSafeLoader):
    """YAML with tags."""


def _each(loader: _Loader, node: yaml.SequenceNode) -> _Each:
    return _Each(loader.construct_sequence(node, deep=True))


def _is(loader: _Loader, node: yaml.ScalarNode) -> TemplateExpression:
    del loader
    return _JINJA.compile_expression(node.value, undefined_to_none=False)


def _culprit(loader: _Loader, node: yaml.Node) -> Any:
    """A patch of culprits.py, or of what makes one its name and its arguments."""
    if isinstance(node, yaml.ScalarNode):
        return getattr(culprits, node.value)
    name, *arguments = loader.construct_sequence(node, deep=True)
    return getattr(culprits, name)(*arguments)


def _body(make: Callable[..., Json], loader: _Loader, node: yaml.MappingNode) -> Json:
    """An object of culprits.py, and what is `merged` into it."""
    given = loader.construct_mapping(node, deep=True)
    more = given.pop("merged", {})
    return merge_patch(make(**given), more)


def _play(steps: Steps, scene: Scene) -> None:
    Play(scene).act(steps)


def _scenario(
    name: str,
    steps: Steps,
    hooks: Sequence[Json] = (),
    policies: Sequence[Json] = (),
    before: Steps = (),
) -> Scenario:
    return Scenario(
        name,
        partial(_play, steps),
        tuple(Hook(**one) for one in hooks),
        tuple(Policy(**one) for one in policies),
        partial(_play, before) if before else None,
    )


_Loader.add_constructor("!each", _each)
_Loader.add_constructor("!is", _is)
_Loader.add_constructor("!culprit", _culprit)
for _tag, _make in {"!deployment": deployment, "!pod": pod}.items():
    _Loader.add_constructor(_tag, partial(_body, _make))
for _file in sorted(FOLDER.glob("*.yaml")):
    for _name, _script in yaml.load(_file.read_text(), _Loader).items():  # noqa: S506 - a SafeLoader
        enter(_scenario(_name, **_script))
