"""Kinds and policies of a shop."""

# ruff: noqa: RUF012 - models copy the lists that are their defaults

from __future__ import annotations

from typing import Annotated, Any

from kubewright import CustomResource, Model, ObjectMeta
from kubewright import markers as m
from kubewright.policies import (
    ApplyConfiguration,
    Binding,
    JSONPatch,
    MutatingPolicy,
    ParamRef,
    ValidatingPolicy,
    Validation,
)


class WebServerSpec(Model):
    image: str = "nginx:1"
    replicas: Annotated[int, m.Minimum(0)] = 1
    tags: list[str] = []
    settings: Annotated[dict[str, Any], m.PreserveUnknownFields()] = {}


class WebServer(CustomResource, group="policies.example.com", version="v1"):
    spec: WebServerSpec


class LimitSpec(Model):
    replicas: int


class Limit(CustomResource, group="policies.example.com", version="v1"):
    spec: LimitSpec


PINNED = ValidatingPolicy(
    "pinned-images",
    WebServer,
    validations=[Validation("!object.spec.image.endsWith(':latest')", message="pin the image to a version")],
)
LIMITED = ValidatingPolicy(
    "limited-replicas",
    WebServer,
    params=Limit,
    variables={"most": "params.spec.replicas"},
    validations=[
        Validation(
            "object.spec.replicas <= variables.most",
            message_expression="'at most ' + string(variables.most) + ' replicas'",
            reason="Forbidden",
        )
    ],
    audit_annotations={"replicas": "string(object.spec.replicas)"},
    bindings=[Binding(params=ParamRef(name="default"))],
)
LABELED = MutatingPolicy(
    "labeled",
    WebServer,
    match_conditions={"has-no-team": "!has(object.metadata.labels) || !('team' in object.metadata.labels)"},
    mutations=[
        ApplyConfiguration("Object{metadata: Object.metadata{labels: {'team': request.namespace}}}"),
        JSONPatch("[JSONPatch{op: 'replace', path: '/spec/replicas', value: 2}]"),
    ],
)


def webserver(
    name: str = "web", namespace: str = "shop", *, labels: dict[str, str] | None = None, **spec: object
) -> WebServer:
    metadata = ObjectMeta(name=name, namespace=namespace, labels=labels or {})
    return WebServer(metadata=metadata, spec=WebServerSpec(**spec))  # type: ignore[arg-type]


def limit(replicas: int, name: str = "default", namespace: str = "") -> Limit:
    return Limit(metadata=ObjectMeta(name=name, namespace=namespace), spec=LimitSpec(replicas=replicas))
