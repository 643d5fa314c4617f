"""The StatefulSet controller: pods with names, places and volumes that stay."""
