"""A controller that is made by hand, without a Manager."""
