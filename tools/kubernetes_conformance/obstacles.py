"""Why a control plane with simulated Pods cannot pass a case: what the test needs from a container."""

from __future__ import annotations

import re
from typing import Final

_OBSTACLES: Final = (
    (
        r"AdmissionWebhook |CustomResourceConversionWebhook |CustomResourceFieldSelectors ",
        "calls a webhook server that runs in a Pod",
    ),
    (r"Aggregator ", "calls an API server that runs in a Pod"),
    (
        r"remote command execution|shared volumes between|ImageVolume|KubeletManagedEtcHosts|Ephemeral Containers|"
        r"InPlace Resize|mount an API token|writing subpaths|subpath expansion|nameservers|"
        r"Burst scaling|halt if any stateful|rolling updates and roll backs|on each replica",
        "runs a command in a container, or connects to it",
    ),
    (
        r"\[sig-network\] (Services|Proxy|Networking|DNS|EndpointSlice|HostPort) |PreStop|Lifecycle Hook|"
        r"Guestbook|Update Demo|Kubectl expose|evicted statefulset",
        "connects to a Pod, or to a Service",
    ),
    (
        r"\[sig-storage\]|logs|\[sig-node\] (ConfigMap|Secrets|Containers|Downward API|Variable Expansion|"
        r"Security Context|Sysctls|Kubelet) |environment variables for services|get a host IP|"
        r"projected service account|OIDC discovery",
        "reads what a container prints",
    ),
    (r"Probing ", "needs the result of a probe"),
    (
        r"\[sig-apps\] (Job|CronJob) |InitContainer|Container Runtime|activeDeadlineSeconds",
        "needs a container that runs for some time, then ends or fails",
    ),
    (r"proportional scaling|rollback without", "needs an image that cannot be pulled"),
)


def obstacle_to(name: str) -> str | None:
    """Return what the test of a case does that needs a running container; None if it needs none."""
    return next((why for pattern, why in _OBSTACLES if re.search(pattern, name)), None)
