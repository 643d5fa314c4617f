"""The controllers that start with the first object of their kind, and the kinds that they wait for.

The kinds are written here because their classes would have to be imported.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from kubewright._runtime.clock import Clock
from kubewright.client._client import Client
from kubewright.controllers import Controller
from kubewright.models import APIResource
from kubewright_controlplane.ondemand import Demand

if TYPE_CHECKING:
    from kubewright_controlplane.controllers.certificates import Sign
    from kubewright_controlplane.controllers.serviceaccounttokens import Mint

NAMES: Final = (
    "certificatesigningrequest-controller",
    "cronjob-controller",
    "daemonset-controller",
    "disruption-controller",
    "horizontal-pod-autoscaler-controller",
    "persistentvolume-protection-controller",
    "persistentvolumeclaim-protection-controller",
    "replicationcontroller-controller",
    "resourceclaim-controller",
    "serviceaccount-token-controller",
    "statefulset-controller",
    "volumeattributesclass-protection-controller",
)


class RareKinds:
    """Imports each controller when it is needed."""

    def __init__(
        self,
        live: Client,
        clock: Clock,
        *,
        autoscaler_period: timedelta,
        sign: Sign | None,
        mint: Mint | None = None,
        ca: str = "",
        protects_storage: bool = True,
    ) -> None:
        """`live` reads from the server. `sign` signs certificate requests, `mint` issues the tokens in Secrets.

        `protects_storage` says whether the API server removes the finalizers of deleted objects that nothing uses.
        """
        self._protects_storage = protects_storage
        self._mint = mint
        self._ca = ca
        self._sign = sign
        self._live = live
        self._clock = clock
        self._autoscaler_period = autoscaler_period

    def demands(self) -> Mapping[str, Sequence[Demand]]:
        """Return what each controller waits for, by the controller's name. One of them has two parts."""
        return self._protections() | {
            "certificatesigningrequest-controller": [
                Demand(
                    APIResource(
                        "certificates.k8s.io",
                        "v1",
                        "CertificateSigningRequest",
                        "certificatesigningrequests",
                        namespaced=False,
                    ),
                    self._certificates,
                )
            ],
            "cronjob-controller": [Demand(APIResource("batch", "v1", "CronJob", "cronjobs"), self._cronjob)],
            "daemonset-controller": [Demand(APIResource("apps", "v1", "DaemonSet", "daemonsets"), self._daemonset)],
            "disruption-controller": [
                Demand(APIResource("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets"), self._disruption)
            ],
            "horizontal-pod-autoscaler-controller": [
                Demand(
                    APIResource("autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers"),
                    self._autoscaler,
                )
            ],
            "replicationcontroller-controller": [
                Demand(APIResource("", "v1", "ReplicationController", "replicationcontrollers"), self._replication)
            ],
            "resourceclaim-controller": [
                Demand(
                    APIResource("resource.k8s.io", "v1", "ResourceClaimTemplate", "resourceclaimtemplates"),
                    self._pod_claims,
                ),
                Demand(APIResource("resource.k8s.io", "v1", "ResourceClaim", "resourceclaims"), self._claims),
            ],
            "serviceaccount-token-controller": [
                Demand(
                    APIResource("", "v1", "Secret", "secrets"),
                    partial(self._tokens, self._mint),
                    fields="type=kubernetes.io/service-account-token",
                )
            ]
            if self._mint is not None
            else [],
            "statefulset-controller": [
                Demand(APIResource("apps", "v1", "StatefulSet", "statefulsets"), self._statefulset)
            ],
        }

    def _protections(self) -> dict[str, Sequence[Demand]]:
        if not self._protects_storage:
            return {}
        return {
            "persistentvolume-protection-controller": [
                Demand(
                    APIResource("", "v1", "PersistentVolume", "persistentvolumes", namespaced=False),
                    self._volume_protection,
                )
            ],
            "persistentvolumeclaim-protection-controller": [
                Demand(APIResource("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims"), self._claim_protection)
            ],
            "volumeattributesclass-protection-controller": [
                Demand(
                    APIResource(
                        "storage.k8s.io", "v1", "VolumeAttributesClass", "volumeattributesclasses", namespaced=False
                    ),
                    self._class_protection,
                )
            ],
        }

    def _certificates(self) -> Controller[Any]:
        from kubewright_controlplane.controllers.certificates import certificate_controller

        return certificate_controller(self._clock, self._sign)

    def _cronjob(self) -> Controller[Any]:
        from kubewright_controlplane.controllers.cronjob.controller import cronjob_controller

        return cronjob_controller(self._clock)

    def _daemonset(self) -> Controller[Any]:
        from kubewright_controlplane.controllers.daemonset.controller import daemonset_controller

        return daemonset_controller(self._live, self._clock)

    def _disruption(self) -> Controller[Any]:
        from kubewright_controlplane.controllers.disruption import disruption_controller

        return disruption_controller(self._live, self._clock)

    def _autoscaler(self) -> Controller[Any]:
        from kubewright_controlplane.controllers.autoscaling.controller import autoscaler_controller

        return autoscaler_controller(self._live, self._clock, self._autoscaler_period)

    def _volume_protection(self) -> Controller[Any]:
        from kubewright.apis.core.v1 import PersistentVolume
        from kubewright_controlplane.controllers.storage.protection import protection_controller

        name = "persistentvolume-protection-controller"
        return protection_controller(PersistentVolume, name, "kubernetes.io/pv-protection")

    def _claim_protection(self) -> Controller[Any]:
        from kubewright.apis.core.v1 import PersistentVolumeClaim
        from kubewright_controlplane.controllers.storage.protection import protection_controller

        name = "persistentvolumeclaim-protection-controller"
        return protection_controller(PersistentVolumeClaim, name, "kubernetes.io/pvc-protection")

    def _class_protection(self) -> Controller[Any]:
        from kubewright.apis.storage.v1 import VolumeAttributesClass
        from kubewright_controlplane.controllers.storage.protection import protection_controller

        name = "volumeattributesclass-protection-controller"
        return protection_controller(VolumeAttributesClass, name, "kubernetes.io/vac-protection")

    def _replication(self) -> Controller[Any]:
        from kubewright_controlplane.controllers.replicationcontroller import replicationcontroller_controller

        return replicationcontroller_controller(self._live, self._clock)

    def _pod_claims(self) -> Controller[Any]:
        from kubewright_controlplane.controllers.resourceclaims import pod_claims_controller

        return pod_claims_controller()

    def _claims(self) -> Controller[Any]:
        from kubewright_controlplane.controllers.resourceclaims import claims_controller

        return claims_controller(self._live)

    def _tokens(self, mint: Mint) -> Controller[Any]:
        from kubewright_controlplane.controllers.serviceaccounttokens import token_controller

        return token_controller(self._live, self._ca, mint)

    def _statefulset(self) -> Controller[Any]:
        from kubewright_controlplane.controllers.statefulset.controller import statefulset_controller

        return statefulset_controller(self._live, self._clock)
