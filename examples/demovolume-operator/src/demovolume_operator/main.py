"""The operator: its controllers, and how they run. `kubewright run --help` lists its flags."""

from kubewright import Manager

from demovolume_operator.controller import demovolume, volumeoperation

manager = Manager(
    controllers=[
        demovolume.reconcile,
        volumeoperation.reconcile,
    ],
    name="demovolume-operator",
)

if __name__ == "__main__":
    manager.main()
