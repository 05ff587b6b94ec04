"""The runtime: loops that move mail. An engine advances executions, a worker does calls; neither holds a rule."""
