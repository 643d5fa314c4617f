"""The operator: its controllers and its Manager. `kubewright run --help` lists its flags."""

from kubewright import Manager

from webserver_operator.controller import webserver

manager = Manager(
    controllers=[
        webserver.reconcile,
    ],
    name="webserver-operator",
)

if __name__ == "__main__":
    manager.main()
