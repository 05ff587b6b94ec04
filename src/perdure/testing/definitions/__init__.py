"""Random definitions, and what must come of them: made by `generator`, predicted by `sequential`, compared by `comparing`."""
