"""What a running process needs: the clock, structured logs, and stop signals."""
