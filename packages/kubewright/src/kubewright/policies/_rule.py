"""Which requests a policy matches: resources, operations and names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, TypeGuard, get_args

from kubewright.machinery._suggestions import shown
from kubewright.machinery.errors import ConfigError
from kubewright.machinery.gvk import GroupVersionKind
from kubewright.models import Object
from kubewright.webhooks import Operation, ScopeType
from kubewright.webhooks._checks import check_choice, check_known, check_list, check_places
from kubewright.webhooks._declaration import check_own_object

RuleOperation: TypeAlias = Operation | Literal["*"]
"""What a request does to an object; "*" is any operation."""

OPERATIONS: Final[tuple[str, ...]] = (*get_args(Operation), "*")
WRITES: Final[Sequence[RuleOperation]] = ("CREATE", "UPDATE")


def is_kind(value: object) -> TypeGuard[type[Object]]:
    """Return whether this is the class of a kind."""
    return isinstance(value, type) and issubclass(value, Object)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Requests for some resources. `Rule.of` makes one for a kind.

    groups, versions, resources: "" is the core group, and "*" means all. "*" of `resources` excludes subresources,
    which "*/*" includes. Expressions about resources with a wildcard are compiled without types.

    Raises ConfigError for values that an API server would reject.
    """

    groups: Sequence[str]
    versions: Sequence[str]
    resources: Sequence[str]
    operations: Sequence[RuleOperation] = WRITES
    names: Sequence[str] = ()
    """The names of the objects. Default: all."""
    scope: ScopeType = "*"
    """Only cluster-scoped resources, or only those in namespaces."""
    kind: type[Object] | None = None
    """The class of the objects, if there is one."""

    def __post_init__(self) -> None:
        where = self._where
        for argument in ("groups", "versions", "resources", "operations"):
            check_list(where, argument, getattr(self, argument), subject="policy")
        check_known(where, "operations", self.operations, OPERATIONS)
        if "*" in self.operations and len(self.operations) > 1:
            raise ConfigError(f'{where}: operations={list(self.operations)!r}: "*" includes all others; remove them')
        check_places(where, self.groups, self.versions, self.resources)
        check_choice(where, "scope", self.scope, get_args(ScopeType))
        if self.names:
            check_list(where, "names", self.names, subject="policy")

    @classmethod
    def of(
        cls,
        kind: type[Object],
        *,
        operations: Sequence[RuleOperation] = WRITES,
        subresources: Sequence[str] = ("",),
        parent: type[Object] | None = None,
        names: Sequence[str] = (),
        scope: ScopeType = "*",
    ) -> Rule:
        """Return the rule for the objects of a kind.

        subresources: such as `["status"]`; "" is the object itself, the default.
        parent: the kind that has the subresources, if their objects are of another kind:
            `Rule.of(Scale, parent=Deployment, subresources=["scale"])`.

        Raises ConfigError for arguments that make no sense.
        """
        if not is_kind(kind):
            raise ConfigError(f"Rule.of takes the class of a kind, got {shown(kind)}")
        where = f"Rule.of({kind.__name__})"
        check_list(where, "subresources", subresources, subject="policy")
        if parent is None:
            check_own_object(where, "Rule.of", kind, subresources)
        elif "" in subresources:
            raise ConfigError(
                f"{where}: with parent={parent.__name__}, subresources names the subresources whose objects are of "
                f'kind {kind.__name__}, got {list(subresources)}; write subresources=["..."]'
            )
        api = (parent or kind).__api__
        return cls(
            groups=(api.group,),
            versions=(api.version,),
            resources=tuple(f"{api.plural}/{each}" if each else api.plural for each in subresources),
            operations=operations,
            names=names,
            scope=scope,
            kind=kind,
        )

    def covers(self, operation: str) -> bool:
        """Return whether the rule is for that operation."""
        return operation in self.operations or "*" in self.operations

    def is_of(self, kind: GroupVersionKind) -> bool:
        """Return whether the rule was made for objects of that kind."""
        return self.kind is not None and self.kind.__api__.gvk == kind

    @property
    def _where(self) -> str:
        return f"Rule.of({self.kind.__name__})" if self.kind is not None else "Rule"
