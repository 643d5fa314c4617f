"""The conversion between v1alpha1 and v1: v1 is the hub."""

from datetime import UTC, datetime
from typing import Final

from kubewright import Condition
from kubewright.machinery.quantity import Quantity
from kubewright.webhooks import Conversion, Spoke

from webfarm_operator.api.v1.webserver import ServiceSettings, WebServer, WebServerSpec, WebServerStatus
from webfarm_operator.api.v1alpha1 import webserver as v1alpha1

MB: Final = 10**6


def to_v1(old: v1alpha1.WebServer) -> WebServer:
    spec = old.spec
    return WebServer(
        spec=WebServerSpec(
            replicas=spec.size,
            image=spec.image,
            memory=f"{spec.memory_mb}M",
            service=ServiceSettings(type="NodePort" if spec.public else "ClusterIP", port=spec.port),
        ),
        status=WebServerStatus(available_replicas=old.status.available, conditions=conditions_of(old)),
    )


def conditions_of(old: v1alpha1.WebServer) -> list[Condition]:
    """Return what v1alpha1 says of the conditions, until the controller has written its own."""
    since = old.metadata.creation_timestamp or datetime.fromtimestamp(0, UTC)
    ready = Condition(type="Ready", status="True", reason="Converted", message="", last_transition_time=since)
    return [ready] if old.status.ready else []


def from_v1(new: WebServer) -> v1alpha1.WebServer:
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


def megabytes(memory: str) -> int:
    """Return a quantity in MB, rounded up to the values that v1alpha1 accepts."""
    return min(max(-(-Quantity.parse(memory).value // MB), 1), 1_000_000)


conversion = Conversion(WebServer, Spoke(v1alpha1.WebServer, convert_to=to_v1, convert_from=from_v1))
