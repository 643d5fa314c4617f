"""Checks of what webhooks and policies have in common: rules, choices, selectors and match conditions.

Each check raises ConfigError, which begins with `where`: what is declared.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final, NoReturn

from kubewright.machinery._suggestions import did_you_mean
from kubewright.machinery.errors import ConfigError
from kubewright.machinery.names import qualified_name
from kubewright.machinery.selectors import Selector
from kubewright.models._values import plain

if TYPE_CHECKING:
    from kubewright.models._meta import LabelSelector

_MAX_CONDITIONS: Final = 64


def has_control_plane() -> bool:
    """Return whether `kubewright-controlplane` is installed, which compiles expressions."""
    return find_spec("kubewright_controlplane") is not None


def fail(where: str, argument: str, value: object, advice: str) -> NoReturn:
    """Raise the error of an argument that has a wrong value."""
    raise ConfigError(f"{where}: {argument}={value!r}: {advice}")


def check_list(where: str, argument: str, values: Sequence[str], *, subject: str) -> None:
    """Check a list that names at least one thing, and nothing twice. `subject` says what is declared: "webhook"."""
    if isinstance(values, str):
        fail(where, argument, values, f"write a list: [{values!r}]")
    if not values:
        called = "be called" if subject == "webhook" else "apply"
        raise ConfigError(
            f"{where}: {argument} is empty, so that the {subject} would never {called}; name at least one"
        )
    repeated = [each for index, each in enumerate(values) if each in values[:index]]
    if repeated:
        raise ConfigError(f"{where}: {argument} has {repeated[0]!r} twice; remove one")


def check_known(where: str, argument: str, values: Sequence[str], known: Collection[str]) -> None:
    """Check that each of the values is known."""
    for each in values:
        if each not in known:
            fail(where, argument, each, f"write {', '.join(known)}{did_you_mean(each, known)}")


def check_choice(where: str, argument: str, value: str, known: Collection[str]) -> None:
    """Check a value of which only a few are possible."""
    if value not in known:
        fail(where, argument, value, f"write one of {', '.join(known)}")


def check_places(where: str, groups: Sequence[str], versions: Sequence[str], resources: Sequence[str]) -> None:
    """Check the groups, versions and resources of a rule."""
    for argument, values in (
        ("groups", groups),
        ("versions", versions),
        ("resources", [each for each in resources if "/" not in each]),
    ):
        if "*" in values and len(values) > 1:
            fail(where, argument, list(values), '"*" includes all others; leave the others out')
    if "*/*" in resources and len(resources) > 1:
        fail(where, "resources", list(resources), '"*/*" includes all others; leave the others out')
    for each in resources:
        if not each or each.startswith("/") or each.endswith("/") or each != each.lower():
            fail(where, "resources", each, 'write a plural in lower case, like "pods", "pods/exec", "*" or "*/*"')


def check_selector(where: str, argument: str, selector: LabelSelector | None) -> None:
    """Check the operators and labels of a selector."""
    if selector is None:
        return
    try:
        Selector.from_dict(plain(selector))
    except ValueError as error:
        raise ConfigError(f"{where}: {argument}: {error}") from error


def check_conditions(where: str, conditions: Mapping[str, str]) -> None:
    """Check the names of match conditions, and that the expressions are not empty."""
    if len(conditions) > _MAX_CONDITIONS:
        raise ConfigError(
            f"{where}: match_conditions: at most {_MAX_CONDITIONS} are possible, got {len(conditions)}; join some of "
            f"them with &&"
        )
    for name, expression in conditions.items():
        if errors := qualified_name(name):
            fail(where, "match_conditions", name, f"the name of a condition {errors[0]}")
        if not expression.strip():
            fail(where, "match_conditions", name, "the expression is empty; write one in CEL")
