"""The conversion of WebServer between its versions. v1 is the hub."""

from datetime import UTC, datetime
from typing import Final

from kubewright import Condition
from kubewright.machinery.quantity import Quantity
from kubewright.webhooks import Conversion, Spoke

from webfarm_operator.api.v1 import webserver as v1
from webfarm_operator.api.v1alpha1 import webserver as v1alpha1

MB: Final = 10**6


def v1alpha1_to_v1(old: v1alpha1.WebServer) -> v1.WebServer:
    spec = old.spec
    return v1.WebServer(
        spec=v1.WebServerSpec(
            replicas=spec.size,
            image=spec.image,
            memory=f"{spec.memory_mb}M",
            service=v1.ServiceSettings(type="NodePort" if spec.public else "ClusterIP", port=spec.port),
        ),
        status=v1.WebServerStatus(available_replicas=old.status.available, conditions=conditions_of(old)),
    )


def v1_to_v1alpha1(new: v1.WebServer) -> v1alpha1.WebServer:
    spec = new.spec
    ready = any(each.type == "Ready" and each.status == "True" for each in new.status.conditions)
    return v1alpha1.WebServer(
        spec=v1alpha1.WebServerSpec(
            size=1 if spec.replicas is None else spec.replicas,
            image=spec.image,
            memory_mb=megabytes(spec.memory),
            port=spec.service.port,
            public=spec.service.type != "ClusterIP",
        ),
        status=v1alpha1.WebServerStatus(available=new.status.available_replicas, ready=ready),
    )


def conditions_of(old: v1alpha1.WebServer) -> list[Condition]:
    """Return the condition that `ready` stands for."""
    since = old.metadata.creation_timestamp or datetime.fromtimestamp(0, UTC)
    ready = Condition(type="Ready", status="True", reason="Converted", message="", last_transition_time=since)
    return [ready] if old.status.ready else []


def megabytes(memory: str) -> int:
    """Return a quantity in MB, rounded up, within the limits of v1alpha1."""
    return min(max(-(-Quantity.parse(memory).value // MB), 1), 1_000_000)


conversion = Conversion(
    v1.WebServer,
    Spoke(v1alpha1.WebServer, convert_to=v1alpha1_to_v1, convert_from=v1_to_v1alpha1),
)
