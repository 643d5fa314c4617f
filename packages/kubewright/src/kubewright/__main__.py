"""`python -m kubewright` is the command `kubewright`."""

from kubewright_cli.main import main

main()
