"""Tasks: work of queues for workers in any language, over HTTP, over the pipes of a child process, or by files.

`messages` is what is said, whatever carries it; `app` and `endpoint` say it over HTTP, `pipes` to one child that does many tasks, `each` to a child for each.
What is lent, to whom and for how long is the lender's matter (`perdure.runtime.task_broker`).
"""
