"""What a running process needs: the time of day, structured logs, stop signals, and services in the background."""
