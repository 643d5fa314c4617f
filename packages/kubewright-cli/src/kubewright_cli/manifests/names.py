"""Names of a deployment's objects: short in `config/`, complete in a cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

MANAGER: Final = "controller-manager"
"""The Deployment, the ServiceAccount, and the value of the label `control-plane`."""
METRICS_SERVICE: Final = "controller-manager-metrics-service"


@dataclass(frozen=True, slots=True)
class Names:
    """The names of objects: `pattern` has `%s` in place of the short name."""

    pattern: str
    namespace: str
    """The manager's namespace."""
    account: str
    """The manager's ServiceAccount."""

    @classmethod
    def with_prefix(cls, prefix: str, namespace: str) -> Names:
        return cls(f"{prefix}%s", namespace, f"{prefix}{MANAGER}")

    def of(self, name: str) -> str:
        return self.pattern % name


SHORT: Final = Names.with_prefix("", "system")
"""In `config/`. Kustomize adds the prefix and the namespace, as in kubebuilder's projects."""
