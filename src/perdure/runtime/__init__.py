"""The loops that receive messages and act on them: an engine advances executions, a worker performs calls. Neither holds a rule."""
