"""The operator: its controllers and its Manager. `kubewright run --help` lists its flags."""

from kubewright import Manager

from fleet.controller.apps import deployment as apps_deployment
from fleet.controller.fiz import cruiser as fiz_cruiser
from fleet.controller.sea_creatures import octopus as sea_creatures_octopus
from fleet.controller.ship import frigate as ship_frigate

manager = Manager(
    controllers=[
        ship_frigate.reconcile,
        sea_creatures_octopus.reconcile,
        fiz_cruiser.reconcile,
        apps_deployment.reconcile,
    ],
    name="fleet",
)

if __name__ == "__main__":
    manager.main()
