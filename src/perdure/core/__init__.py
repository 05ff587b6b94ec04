"""The rules of executions: events and their fold, decisions and their effects. The package is pure; time and randomness arrive as arguments."""
