"""The Deployment controller: rolls out ReplicaSets until all Pods match the template."""
