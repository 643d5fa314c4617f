"""Names of the objects of a deployment, which are short in `config/` and complete in a cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

MANAGER: Final = "controller-manager"
"""The Deployment; and the value of the label `control-plane`."""
ACCOUNT: Final = "controller-manager"
METRICS_SERVICE: Final = "controller-manager-metrics-service"


@dataclass(frozen=True, slots=True)
class Names:
    """How objects are called: a prefix before each name, and the namespace of those that are in the manager's."""

    prefix: str
    namespace: str

    def of(self, name: str) -> str:
        return f"{self.prefix}{name}"


SHORT: Final = Names("", "system")
"""In `config/`, where kustomize puts the prefix and the namespace in, as in kubebuilder's projects."""
