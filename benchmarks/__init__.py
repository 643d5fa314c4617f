"""What Kubewright costs, beside its peers: `make bench`, or `python -m benchmarks --help`.

operators    the same operator in Kubewright and its peers, on a real control plane
apiservers   the embedded API server beside a real one
imports      the time that the SDK takes to import
transport    the HTTP layer alone (a program of its own)

What is compared is measured in one run, in turns, several times; what is printed is medians and their ratios. Absolute
figures are those of the machine they were measured on.
"""
