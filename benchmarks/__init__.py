"""Benchmarks of Kubewright and comparable toolkits: `make bench`, or `python -m benchmarks --help`.

sections     the parts of a run, by name
operators    the same operator in each toolkit, on a real control plane
growth       the same operator with ten times the objects
cache        the Pods of a large cluster in each toolkit's cache
apiservers   the embedded API server and a real one
imports      CPU time of the SDK's imports
reconciles   the SDK without the network (a separate program)
transport    the HTTP layer alone (a separate program)
peers        the measured programs in each toolkit
bars         the targets of the design, and whether they are met
fleet        the Widgets of an operator
pods         the Pods of a cache
requests     the requests of an operator, from the audit log
process      CPU and memory of processes
workers      concurrent work
report       medians and tables

Everything that is compared is measured in one run, in alternating order, several times. The output is medians and their
ratios. Absolute figures depend on the machine.
"""
