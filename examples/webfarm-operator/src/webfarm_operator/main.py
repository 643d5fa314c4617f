"""The operator: its controllers, webhooks and policies, and its Manager. `kubewright run --help` lists its flags."""

from kubewright import Manager
from kubewright.webhooks import ManagedCertificate

from webfarm_operator.controller import webserver
from webfarm_operator.webhook import policies, webserver_conversion, webserver_v1

manager = Manager(
    controllers=[
        webserver.reconcile,
    ],
    webhooks=[
        webserver_v1.set_defaults,
        webserver_v1.validate,
        webserver_conversion.conversion,
    ],
    policies=[
        policies.load_balancers,
    ],
    webhook_certificate=ManagedCertificate(),
    name="webfarm-operator",
)

if __name__ == "__main__":
    manager.main()
