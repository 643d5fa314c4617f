"""`python -m kubewright` is the command `kubewright`."""

from kubewright.cli.main import main

main()
