"""The same two programs in each tool kit, written as its users write them, with its defaults.

widgets   an operator: a Widget owns a ConfigMap with what its spec says, and its status tells of it
pods      holds every Pod of the cluster. For each line on its standard input, names of Pods in the namespace `default`,
          it writes one line of JSON: `{"count": 10000, "pods": {name: [resourceVersion, note]}}`, from its cache alone

Both find the API server by `KUBECONFIG`. Each tool kit's version stands in one file, the one that its own tools read:
`controller-runtime/go.mod`, `kube-rs/Cargo.toml`, `kopf/requirements.txt`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

KUBEWRIGHT: Final = "kubewright"
CONTROLLER_RUNTIME: Final = "controller-runtime"
CONTROLLER_RUNTIME_16: Final = "controller-runtime-16"
"""With as many workers as Kubewright has; its own default is one."""
KUBE_RS: Final = "kube-rs"
KOPF: Final = "kopf"

Command: TypeAlias = tuple[str, ...]


@dataclass(frozen=True)
class Peer:
    """A tool kit whose programs can be started."""

    name: str
    version: str
    widgets: Command
    pods: Command
    environment: dict[str, str]
