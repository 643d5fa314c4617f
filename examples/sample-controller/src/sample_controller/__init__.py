"""A controller that is written without a Manager."""
