"""The operator: its controllers, and how they run. `kubewright run --help` lists its flags."""

from kubewright import Manager

from podbuggertool_operator.controller import podbuggertool

manager = Manager(
    controllers=[
        podbuggertool.reconcile,
    ],
    name="podbuggertool-operator",
)

if __name__ == "__main__":
    manager.main()
