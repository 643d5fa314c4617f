"""The Site operator, whose author promises that one pass is enough: `python sites_onepass.py --kubeconfig ...`."""

from benchmarks.peers.kubewright import sites

if __name__ == "__main__":
    sites.main(one_pass=True)
