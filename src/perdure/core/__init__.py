"""The rules: what an execution is, what it decides, and what follows from that. Pure; time and randomness arrive as arguments."""
