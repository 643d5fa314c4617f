"""The operator: its controllers and webhooks, and its Manager. `kubewright run --help` lists its flags."""

from kubewright import Manager
from kubewright.webhooks import ManagedCertificate

from webfarm_operator.controller import webserver
from webfarm_operator.webhook import webserver as webhook
from webfarm_operator.webhook.conversion import conversion

manager = Manager(
    controllers=[
        webserver.reconcile,
    ],
    webhooks=[
        webhook.set_defaults,
        webhook.check,
        conversion,
    ],
    webhook_certificate=ManagedCertificate(prefix="webfarm-operator-"),
    name="webfarm-operator",
)

if __name__ == "__main__":
    manager.main()
