"""The dialect of steps connected by ports, with ``{{ }}`` expressions."""
