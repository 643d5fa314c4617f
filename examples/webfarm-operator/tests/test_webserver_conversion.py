"""The conversion, without a server."""

from datetime import UTC, datetime

import pytest
from kubewright import Condition, ObjectMeta, set_condition
from kubewright.testing import check_round_trips

from webfarm_operator.api.v1.webserver import ServiceSettings, Variable, WebServer, WebServerSpec, WebServerStatus
from webfarm_operator.api.v1alpha1 import webserver as v1alpha1
from webfarm_operator.webhook.webserver_conversion import conversion, megabytes

NOW = datetime(2026, 11, 23, tzinfo=UTC)
NEW = WebServer(
    metadata=ObjectMeta(name="web", namespace="default"),
    spec=WebServerSpec(
        replicas=3,
        image="nginx:1.23.1",
        memory="1Gi",
        service=ServiceSettings(type="LoadBalancer", port=8080),
        env=[Variable(name="MODE", value="fast")],
    ),
    status=WebServerStatus(
        observed_generation=2,
        available_replicas=3,
        conditions=[
            Condition(type="Ready", status="True", reason="AllPodsAvailable", message="", last_transition_time=NOW)
        ],
    ),
)


def test_conversions_lose_nothing() -> None:
    check_round_trips(conversion, objects=[NEW])


def test_an_old_client_sees_flat_fields() -> None:
    old = conversion.convert(NEW, v1alpha1.WebServer)
    assert old.spec == v1alpha1.WebServerSpec(size=3, image="nginx:1.23.1", memory_mb=1074, port=8080, public=True)
    assert old.status == v1alpha1.WebServerStatus(available=3, ready=True)


def test_a_write_of_an_old_client_keeps_what_it_does_not_see() -> None:
    old = conversion.convert(NEW, v1alpha1.WebServer)
    old.spec.size = 4
    new = conversion.convert(old, WebServer)
    assert new.spec.replicas == 4
    assert (new.spec.memory, new.spec.service.type, new.spec.env) == ("1Gi", "LoadBalancer", NEW.spec.env)


def test_a_change_of_an_old_client_wins() -> None:
    old = conversion.convert(NEW, v1alpha1.WebServer)
    old.spec.memory_mb = 128
    old.spec.public = False
    new = conversion.convert(old, WebServer)
    assert (new.spec.memory, new.spec.service.type) == ("128M", "ClusterIP")


def test_an_old_client_sees_the_current_state_of_an_object_that_it_made() -> None:
    old = v1alpha1.WebServer(
        metadata=ObjectMeta(name="web", namespace="default"),
        spec=v1alpha1.WebServerSpec(image="nginx:1.23.1"),
        status=v1alpha1.WebServerStatus(available=1, ready=True),
    )
    new = conversion.convert(old, WebServer)
    set_condition(new.status.conditions, "Ready", "False", reason="RollingOut", message="")
    assert not conversion.convert(new, v1alpha1.WebServer).status.ready


@pytest.mark.parametrize(("memory", "mb"), [("64M", 64), ("64Mi", 68), ("1", 1), ("0", 1), ("9E", 1_000_000)])
def test_memory_is_rounded_up_to_mb(memory: str, mb: int) -> None:
    assert megabytes(memory) == mb
