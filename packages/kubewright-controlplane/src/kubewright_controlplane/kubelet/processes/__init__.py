"""Pods that run: containers as processes of this machine, for images that somebody who may has given a command.

Which images, says the image table (`images`), a file that no client of the API can write. A process has what a
container has of its own: command and environment, volumes, a ServiceAccount's token, an address, probes, logs; and
nothing of the control plane's environment but PATH and the locale. It is no sandbox: it runs as the user of the control
plane and sees that user's files. Resources, security contexts and network policies are not enforced.

    images       the table from an image to a command
    kubelet      a Pod of the API brought about, and what is reported of it
    runtime      all Pods that run here; answers for their logs and lets people in, as a kubelet does
    pod          one Pod from its start to its end; surroundings: what its containers share
    container    one container over its restarts
    preparation  what a container is given before: environment, downward, expansion, sources, volumes
    handlers, probes                             what is asked of it
    process      one process with what it writes; `launch` and `watch` are the programs that help with it
    logs         what it wrote
    session, terminal                            people in it
    ports, portforward                           its ports, and people at them
    server       a kubelet's door for API servers in other processes
    standins     images that others run in: `webserver` is one of them
"""
