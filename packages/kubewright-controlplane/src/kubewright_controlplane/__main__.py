"""`python -m kubewright_controlplane` is the command `kubewright-controlplane`."""

from kubewright_controlplane.command import main

main()
