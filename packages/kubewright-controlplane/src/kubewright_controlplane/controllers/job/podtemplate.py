"""The pods of a Job. Follows kubernetes/pkg/controller/job (indexed_job_utils.go)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from kubewright.apis.batch.v1 import Job
from kubewright.apis.core.v1 import Container, EnvVar, EnvVarSource, ObjectFieldSelector, Pod, PodSpec
from kubewright_controlplane.controllers.job.tally import FINALIZER, INDEX
from kubewright_controlplane.controllers.podcontrol import pod_of

_ENV: Final = EnvVar(
    name="JOB_COMPLETION_INDEX",
    value_from=EnvVarSource(field_ref=ObjectFieldSelector(field_path=f"metadata.labels['{INDEX}']")),
)


def build_pod(job: Job, index: int | None, annotations: Mapping[str, str]) -> Pod:
    """Return a Pod of the Job with further annotations, for a completion index if one is given."""
    pod = pod_of(job, job.spec.template)
    if FINALIZER not in pod.metadata.finalizers:
        pod.metadata.finalizers.append(FINALIZER)
    pod.metadata.annotations.update(annotations)
    if index is not None:
        pod.metadata.generate_name = f"{job.metadata.name}-{index}-"
        pod.metadata.labels[INDEX] = pod.metadata.annotations[INDEX] = str(index)
        pod.spec = _indexed(pod.spec, f"{job.metadata.name}-{index}")
    return pod


def _indexed(spec: PodSpec, hostname: str) -> PodSpec:
    return msgspec.structs.replace(
        spec,
        hostname=hostname,
        containers=[_with_index(each) for each in spec.containers],
        init_containers=[_with_index(each) for each in spec.init_containers],
    )


def _with_index(container: Container) -> Container:
    if any(each.name == _ENV.name for each in container.env):
        return container
    return msgspec.structs.replace(container, env=[*container.env, _ENV])
