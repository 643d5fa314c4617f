"""The same programs in each toolkit, written as its users write them, with its defaults.

widgets   an operator: a Widget owns a ConfigMap with the values of its spec, and reports it in its status
sites     a larger operator: a Site owns a ConfigMap of 20 KB, a Service and a Deployment, and refers to a Secret. An
          index finds the Sites of a Secret that changes. Only in Kubewright and controller-runtime
pods      caches all Pods of the cluster. It reads lines of Pod names in the namespace `default` from standard input. It
          answers each with a line of JSON from its cache: `{"count": 10000, "pods": {name: [resourceVersion, note]}}`
reviews   serves a defaulter and a validator of Widgets, on `--webhook-port`, with the certificate in
          `--webhook-cert-path`. Only in Kubewright and controller-runtime

All find the API server through `KUBECONFIG`. The version of each toolkit is in one file, which its own tools read:
`controller-runtime/go.mod`, `kube-rs/Cargo.toml`, `kopf/requirements.txt`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

KUBEWRIGHT: Final = "kubewright"
KUBEWRIGHT_ONE_PASS: Final = "kubewright-one-pass"
"""Kubewright with a controller whose author promises that one pass is enough. Only its operator is measured."""
CONTROLLER_RUNTIME: Final = "controller-runtime"
CONTROLLER_RUNTIME_16: Final = "controller-runtime-16"
"""controller-runtime with as many workers as Kubewright has. Its own default is one."""
KUBE_RS: Final = "kube-rs"
KOPF: Final = "kopf"

Command: TypeAlias = tuple[str, ...]


@dataclass(frozen=True)
class Peer:
    """A toolkit whose programs can be started."""

    name: str
    version: str
    operators: Mapping[str, Command]
    """By the name of the workload: `widgets`, `sites`."""
    pods: Command
    environment: dict[str, str]
    reviews: Command = ()
    """Empty if the toolkit is not measured as a webhook server."""
    python: str = ""
    """The interpreter of Kubewright's programs; empty for others."""
