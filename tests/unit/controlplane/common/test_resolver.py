"""The `/etc/resolv.conf` of Pods, by their DNS policy and configuration."""

from __future__ import annotations

from typing import Any

import pytest

from kubewright import ObjectMeta
from kubewright.apis.core.v1 import Pod
from kubewright.models import codec
from kubewright_controlplane.common.resolver import Resolver, resolver_of

MACHINE = Resolver.parse(
    "# by a program\nnameserver 10.0.0.53\nsearch old\nsearch corp.example lan # ours\noptions edns0"
)
CLUSTER = (
    "nameserver 127.134.0.10|search ns.svc.cluster.local svc.cluster.local cluster.local corp.example lan"
    "|options ndots:5"
)
OWN = "nameserver 10.0.0.53|search corp.example lan|options edns0"
CONFIG = {
    "nameservers": ["1.1.1.1", "1.1.1.2", "1.1.1.3"],
    "searches": ["a.example"],
    "options": [{"name": "ndots", "value": "1"}, {"name": "rotate"}],
}


@pytest.mark.parametrize(
    ("spec", "nameserver", "expected"),
    [
        pytest.param({}, "127.134.0.10", CLUSTER, id="default policy"),
        pytest.param({}, None, OWN, id="no DNS server"),
        pytest.param({"hostNetwork": True}, "127.134.0.10", OWN, id="host network"),
        pytest.param(
            {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"},
            "127.134.0.10",
            CLUSTER,
            id="with host network",
        ),
        pytest.param({"dnsPolicy": "Default"}, "127.134.0.10", OWN, id="policy Default"),
        pytest.param(
            {"dnsPolicy": "None", "dnsConfig": CONFIG},
            "127.134.0.10",
            "nameserver 1.1.1.1|nameserver 1.1.1.2|nameserver 1.1.1.3|search a.example|options ndots:1 rotate",
            id="policy None",
        ),
        pytest.param(
            {"dnsConfig": CONFIG},
            "127.134.0.10",
            "nameserver 127.134.0.10|nameserver 1.1.1.1|nameserver 1.1.1.2"
            "|search ns.svc.cluster.local svc.cluster.local cluster.local corp.example lan a.example"
            "|options ndots:1 rotate",
            id="merged",
        ),
    ],
)
def test_policy_and_configuration_are_honored(spec: dict[str, Any], nameserver: str | None, expected: str) -> None:
    pod = codec.from_dict(Pod, {"spec": {"containers": [], **spec}})
    pod.metadata = ObjectMeta(name="p", namespace="ns")
    assert "|".join(resolver_of(pod, nameserver, MACHINE).lines()) == expected
