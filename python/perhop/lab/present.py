"""The present state of a lab's network, and its changes.

A change is checked against the present network and returns another one. There is no history, so
that the thousandth change costs as much as the first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from pydantic import ValidationError

from perhop.engines.plan import balance_effect, effects
from perhop.errors import MAX_PROBLEMS, UsageError
from perhop.hints import did_you_mean
from perhop.scenario import Change, Policy, Scenario
from perhop.scenario.model.changes import NO_POLICY
from perhop.scenario.reading.document import Document
from perhop.scenario.reading.overrides import override
from perhop.scenario.resolve import NetworkState, with_nested
from perhop.scenario.rules.checks import check
from perhop.scenario.rules.findings import Nowhere, problems
from perhop.scenario.rules.policies import guarantees
from perhop.scenario.rules.timeline import balance_of_change, keys_of_change, policy_of_step
from perhop.scenario.rules.wording import explain
from perhop.units import quote

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pydantic import BaseModel

    from perhop.engines import plans
    from perhop.scenario.rules.findings import Finding

__all__ = ["Present"]


class Present:
    """The state of a network after changes. Each change returns another one.

    Attributes:
        scenario: The nodes, the links as they were at first, and the present policies.
        state: The present links.
    """

    def __init__(self, scenario: Scenario, state: NetworkState | None = None) -> None:
        """Begin with a scenario's network, without its timeline."""
        self.scenario = scenario
        self.state = state or NetworkState(scenario)

    @property
    def policies(self) -> dict[str, str | None]:
        """The policy of each directed link; None for the link's queue."""
        return {link: policy for link, (policy, _) in self.state.attached.items()}

    def medium(self, direction: str) -> dict[str, Any]:
        """Return the ends, the present rate and the state of a directed link."""
        number = self.state.number(direction)
        link, (_, node) = self.state.links[number], self.state.directions[direction]
        state = "down" if number in self.state.down else "up"
        return {
            "ends": [node, link.other(node)],
            "capacity_bps": link.capacity(node),
            "state": state,
        }

    def change(self, asked: Mapping[str, Any]) -> tuple[Self, list[plans.EffectPlan], Change]:
        """Make a change: an entry of a scenario's `changes` without its `at`.

        Returns:
            The network that it leaves, its effects as the core takes them, and the change.

        Raises:
            UsageError: It is wrong.
        """
        change = self._checked(asked)
        after = type(self)(self.scenario, self.state.copy())
        found = list(balance_effect(change))
        if change.node is not None:
            node = self.scenario.nodes[change.node].model_copy(update={"balance": change.balance})
            nodes = {**self.scenario.nodes, change.node: node}
            after.scenario = self.scenario.model_copy(update={"nodes": nodes})
        if change.on is not None:
            found = [*after._apply([change]), *found]
        return after, found, change

    def policy(
        self, on: str, policy: str | None, overrides: Sequence[str]
    ) -> tuple[Self, list[plans.EffectPlan], list[str]]:
        """Put a policy before a directed link, with other settings wherever it stands.

        Args:
            on: The link, "r1>r2".
            policy: A policy of the scenario, "none" for the link's queue; by default the one that
                stands there.
            overrides: Changes of it, "PATH=VALUE" with a path inside the policy.

        Returns:
            The network that this leaves, the effects as the core takes them, and the links whose
            classes are new.

        Raises:
            UsageError: It is wrong.
        """
        name = policy or self.policies.get(on)
        if name is None:
            hint = did_you_mean(on, self.state.directions)
            raise UsageError(f"there is no policy on {quote(on)} to change; {hint or 'name one'}")
        after = type(self)(self.scenario, self.state.copy())
        wanted = {on: name}
        if overrides:
            after.scenario = self._overridden(name, overrides)
            for link, known in self.policies.items():
                if known is not None and name in with_nested(after.scenario, [known]):
                    wanted.setdefault(link, known)
        changes = [self._checked({"on": link, "policy": one}) for link, one in wanted.items()]
        return after, after._apply(changes), list(wanted)

    def _checked(self, asked: Mapping[str, Any]) -> Change:
        """Return the requested change, if it is valid by itself."""
        try:
            change = Change.model_validate({**asked, "at": "0 s"}, by_alias=True, by_name=False)
        except ValidationError as error:
            raise _malformed(error, Change, asked) from None
        _refuse(keys_of_change(change, self.state.directions, ()))
        _refuse(balance_of_change(self.scenario, change, ()))
        return change

    def _apply(self, changes: Iterable[Change]) -> list[plans.EffectPlan]:
        """Apply changes to directed links that exist; return their effects."""
        found: list[plans.EffectPlan] = []
        for change in changes:
            step = self.state.apply(change)
            _refuse(policy_of_step(self.scenario, step))
            if change.policy is not None and step.policy is not None:
                attached = (("policy",), str(change.on), step.policy, step.capacity)
                _refuse(guarantees(self.scenario, [attached]))
            found += effects(self.scenario, step, {})
        return found

    def _overridden(self, name: str, overrides: Sequence[str]) -> Scenario:
        """Return the scenario with other settings in one of its policies."""
        if name not in self.scenario.policies:
            if name == NO_POLICY:
                raise UsageError(f"`{NO_POLICY}` has no settings to change; name a policy")
            hint = did_you_mean(name, self.scenario.policies)
            raise UsageError("; ".join(filter(None, [f"{quote(name)} is not a policy", hint])))
        policy = self.scenario.policies[name].model_dump(mode="json", exclude_defaults=True)
        data: dict[str, Any] = {"policies": {name: policy}}
        document = Document("", data)
        for text in overrides:
            override(document, f"policies.{name}.{text}", Scenario)
        if document.problems:
            raise UsageError("; ".join(map(str, document.problems)))
        try:
            changed = Policy.model_validate(policy, by_alias=True, by_name=False)
        except ValidationError as error:
            raise _malformed(error, Policy, policy) from None
        policies = {**self.scenario.policies, name: changed}
        scenario = self.scenario.model_copy(update={"policies": policies})
        _refuse(check(scenario, {"nodes", "links", "policies"}))
        return scenario


def _refuse(findings: Iterable[Finding]) -> None:
    """Raise an error for findings, if there are any."""
    found = [
        ": ".join(filter(None, [path, "; ".join(filter(None, [one.message, one.hint]))]))
        for one in findings
        for path in [".".join(map(str, one.loc))]
    ]
    if found:
        raise UsageError("; ".join(found[:MAX_PROBLEMS]))


def _malformed(error: ValidationError, model: type[BaseModel], asked: object) -> UsageError:
    """Return the problems of a value that does not fit `model`."""
    return UsageError("; ".join(map(str, problems(explain(error, model), Nowhere(), asked))))
