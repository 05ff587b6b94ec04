"""port_graph."""
