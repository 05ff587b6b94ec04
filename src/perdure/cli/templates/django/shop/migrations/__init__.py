"""The migrations of the shop."""
