"""Operators in clusters: put there, taken away, looked at. On a Client, and on what `kubewright_cli.manifests` renders.

crds       the kinds of a project: installed and removed          apply      an operator deployed, and undeployed
rollout    waiting for its Pods, and why they do not come         embedded   images as commands of this machine
status     what it manages, and what has not converged            doctor     what is wrong, and what to do
pods       its Pods, its leader, their logs
"""
