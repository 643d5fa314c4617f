"""Benchmarks of Kubewright and comparable toolkits: `make bench`, or `python -m benchmarks --help`.

sections     the parts of a run, by name
operators    the same operator in each toolkit, on a real control plane
growth       the same operator with ten times the objects
cache        the Pods of a large cluster in each toolkit's cache
apiservers   the embedded API server and a real one
imports      CPU time of the SDK's imports
instructions instructions of an object, a request, a Pod and an import, counted by valgrind
counted      the programs whose instructions are counted (a separate program)
reconciles   the SDK without the network (a separate program)
transport    the HTTP layer alone (a separate program)
peers        the measured programs in each toolkit
bars         the targets of the design, and whether they are met
workloads    the operators that can be measured, and their objects
fleet        the objects of an operator
pods         the Pods of a cache
requests     the requests of an operator, from the audit log
process      CPU and memory of processes
workers      concurrent work
machine      how busy the machine is with other work
interpreters the interpreter and its build
intervals    spread and confidence intervals
report       rounds, medians and tables
history      the results of runs

Everything that is compared is measured in one run, in alternating order, several times. The output is medians and their
ratios, with their spread and intervals. Absolute figures depend on the machine.
"""
