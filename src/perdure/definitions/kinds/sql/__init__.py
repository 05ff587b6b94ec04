"""The kind `sql`: statements on a named connection of the deployment, in one transaction. Values are always bound, and never part of a statement's text."""
