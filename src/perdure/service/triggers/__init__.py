"""What starts executions: schedules, webhooks, events of other executions, and people."""
