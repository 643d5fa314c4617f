"""The operator: its controllers, and how they run. `kubewright run --help` lists its flags."""

from kubewright import Manager

from myweb_operator.controller import myweb

manager = Manager(
    controllers=[
        myweb.reconcile,
    ],
    name="myweb-operator",
)

if __name__ == "__main__":
    manager.main()
