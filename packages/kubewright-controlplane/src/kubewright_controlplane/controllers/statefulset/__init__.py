"""The StatefulSet controller: Pods with stable names and volumes."""
