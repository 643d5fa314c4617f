"""Names of the objects of a deployment, which are short in `config/` and complete in a cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

MANAGER: Final = "controller-manager"
"""The Deployment and the ServiceAccount; and the value of the label `control-plane`."""
METRICS_SERVICE: Final = "controller-manager-metrics-service"


@dataclass(frozen=True, slots=True)
class Names:
    """How objects are called: `pattern` has `%s` where the short name goes."""

    pattern: str
    namespace: str
    """Of those that are in the manager's."""
    account: str
    """The manager's ServiceAccount."""

    @classmethod
    def with_prefix(cls, prefix: str, namespace: str) -> Names:
        return cls(f"{prefix}%s", namespace, f"{prefix}{MANAGER}")

    def of(self, name: str) -> str:
        return self.pattern % name


SHORT: Final = Names.with_prefix("", "system")
"""In `config/`, where kustomize puts the prefix and the namespace in, as in kubebuilder's projects."""
