"""What Kubewright costs, beside its peers: `make bench`, or `python -m benchmarks --help`.

sections     what can be measured, by name
operators    the same operator in each tool kit, on a real control plane    fleet      its objects
growth       the same with ten times the objects                            requests   what it sends
cache        the Pods of a large cluster in each tool kit's cache           pods       these Pods
apiservers   the embedded API server beside a real one
imports      the time that the SDK takes to import
reconciles   the SDK above HTTP alone (a program of its own)
transport    the HTTP layer alone (a program of its own)
peers        the programs that are measured, in each tool kit               report     medians and tables
bars         what the design promises, as a check                           process    what a process costs
hands        work that several share

What is compared is measured in one run, in turns, several times; what is printed is medians and their ratios. Absolute
figures are those of the machine they were measured on.
"""
