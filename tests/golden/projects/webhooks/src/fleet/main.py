"""The operator: its controllers and its Manager. `kubewright run --help` lists its flags."""

from kubewright import Manager
from kubewright.webhooks import ManagedCertificate

from fleet.controller import frigate
from fleet.webhook import deployment_v1, frigate_conversion, frigate_v1beta1, harbor_v1, pod_v1

manager = Manager(
    controllers=[
        frigate.reconcile,
    ],
    webhooks=[
        frigate_v1beta1.set_defaults,
        frigate_v1beta1.validate,
        frigate_conversion.conversion,
        harbor_v1.validate,
        deployment_v1.set_defaults,
        pod_v1.validate,
    ],
    webhook_certificate=ManagedCertificate(prefix="fleet-"),
    name="fleet",
)

if __name__ == "__main__":
    manager.main()
