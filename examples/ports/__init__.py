"""Public samples of Temporal, DBOS, Celery and Prefect, written anew for Perdure. Each module names the original, its commit and its licence."""
