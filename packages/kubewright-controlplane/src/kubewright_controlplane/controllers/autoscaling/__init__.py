"""The HorizontalPodAutoscaler controller.

controller  scales a target to the replicas that its metrics ask for
replicas    how many replicas a metric asks for
limits      how fast and how far the number of replicas may change
usage       what Pods use
"""
