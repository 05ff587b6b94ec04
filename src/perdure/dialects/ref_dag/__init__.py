"""ref_dag."""
