"""The operator: its controllers and its Manager. `kubewright run --help` lists its flags."""

from kubewright import Manager
from kubewright.webhooks import ManagedCertificate

from fleet.controller.apps import deployment as apps_deployment
from fleet.controller.fiz import cruiser as fiz_cruiser
from fleet.controller.sea_creatures import octopus as sea_creatures_octopus
from fleet.controller.ship import frigate as ship_frigate
from fleet.webhook.apps import deployment_v1 as apps_deployment_v1
from fleet.webhook.core import pod_v1 as core_pod_v1
from fleet.webhook.fiz import cruiser_v1 as fiz_cruiser_v1
from fleet.webhook.ship import cruiser_v1 as ship_cruiser_v1
from fleet.webhook.ship import frigate_conversion as ship_frigate_conversion
from fleet.webhook.ship import frigate_v1beta1 as ship_frigate_v1beta1

manager = Manager(
    controllers=[
        ship_frigate.reconcile,
        sea_creatures_octopus.reconcile,
        fiz_cruiser.reconcile,
        apps_deployment.reconcile,
    ],
    webhooks=[
        ship_frigate_v1beta1.set_defaults,
        ship_frigate_v1beta1.validate,
        ship_frigate_conversion.conversion,
        ship_cruiser_v1.validate,
        fiz_cruiser_v1.validate,
        apps_deployment_v1.set_defaults,
        core_pod_v1.validate,
    ],
    webhook_certificate=ManagedCertificate(),
    name="fleet",
)

if __name__ == "__main__":
    manager.main()
