"""Recordings: recordings in which somebody calls tools one by one, and each call becomes a step that a definition can be made of."""
