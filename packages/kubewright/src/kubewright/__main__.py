"""`python -m kubewright` is the command `kubewright`."""

import sys

try:
    from kubewright_cli.main import main
except ModuleNotFoundError as error:
    if error.name != "kubewright_cli":
        raise
    sys.exit("Error: the command line is not installed; install it with: pip install 'kubewright[dev]'")

main()
