"""The objects of a package: its Operator, OperatorVersion and default Instance."""

from __future__ import annotations

from dataclasses import dataclass

from kubewright.apis.core.v1 import ObjectReference
from kubewright.apis.meta.v1 import ObjectMeta
from kubewright.packages._api import (
    Instance,
    InstanceSpec,
    Operator,
    OperatorSpec,
    OperatorVersion,
    OperatorVersionSpec,
    Parameter,
    operator_version_name,
)
from kubewright.packages._files import Package, ParameterEntry
from kubewright.packages._names import OPERATOR_LABEL
from kubewright.packages._values import wrapped


@dataclass(frozen=True, slots=True)
class Resources:
    """The objects of a package."""

    operator: Operator
    operator_version: OperatorVersion
    instance: Instance


def resources(package: Package) -> Resources:
    """Return the objects of a package, without a namespace."""
    file = package.operator
    operator = Operator(
        metadata=ObjectMeta(name=file.name),
        spec=OperatorSpec(
            description=file.description,
            kudo_version=file.kudo_version,
            kubernetes_version=file.kubernetes_version,
            maintainers=file.maintainers,
            url=file.url,
            namespace_manifest=file.namespace_manifest,
        ),
    )
    version_name = operator_version_name(file.name, file.app_version, file.operator_version)
    version = OperatorVersion(metadata=ObjectMeta(name=version_name), spec=version_spec(package))
    return Resources(operator, version, instance_of(file.name, version_name))


def version_spec(package: Package) -> OperatorVersionSpec:
    """Return the content of a package's OperatorVersion."""
    file = package.operator
    return OperatorVersionSpec(
        operator=ObjectReference(kind="Operator", name=file.name),
        version=file.operator_version,
        app_version=file.app_version,
        templates=dict(package.templates),
        tasks=file.tasks,
        parameters=[_parameter(each) for each in package.params.parameters],
        plans=file.plans,
    )


def instance_of(operator: str, version_name: str) -> Instance:
    """Return the default instance of an operator."""
    return Instance(
        metadata=ObjectMeta(name=f"{operator}-instance", labels={OPERATOR_LABEL: operator}),
        spec=InstanceSpec(operator_version=ObjectReference(name=version_name)),
    )


def _parameter(entry: ParameterEntry) -> Parameter:
    return Parameter(
        name=entry.name,
        display_name=entry.display_name,
        description=entry.description,
        required=entry.required,
        default=wrapped(entry.default, entry.type),
        trigger=entry.trigger,
        type=entry.type,
        immutable=entry.immutable,
        enum=None if entry.enum is None else [wrapped(each, entry.type) or "" for each in entry.enum],
    )
