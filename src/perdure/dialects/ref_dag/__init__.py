"""The dialect of steps ordered by their references."""
