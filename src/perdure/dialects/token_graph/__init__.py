"""The dialect of nodes and edges along which tokens move."""
