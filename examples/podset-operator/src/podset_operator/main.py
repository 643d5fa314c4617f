"""The operator: its controllers, and how they run. `kubewright run --help` lists its flags."""

from kubewright import Manager

from podset_operator.controller import podset

manager = Manager(
    controllers=[
        podset.reconcile,
    ],
    name="podset-operator",
)

if __name__ == "__main__":
    manager.main()
