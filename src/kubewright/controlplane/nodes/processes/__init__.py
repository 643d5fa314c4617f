"""Pods that run: containers as processes of this machine, for images that somebody who may has given a command.

Which images, says the image table (`images`), a file that no client of the API can write. A process has what a
container has of its own: command and environment, volumes, a ServiceAccount's token, an address, probes, logs; and
nothing of the control plane's environment but PATH and the locale. It is no sandbox: it runs as the user of the control
plane and sees that user's files. Resources, security contexts and network policies are not enforced.

    images       the table from an image to a command
    runtime      all Pods that run here; answers for their logs as a kubelet does
    pod          one Pod from its start to its end
    container    one container over its restarts
    process      one process with what it writes; `launch` and `watch` are the programs that help with it
    environment, downward, expansion, volumes    what a container is given
    handlers, probes                             what is asked of it
    logs         what it wrote
    status       what is reported of it
"""
