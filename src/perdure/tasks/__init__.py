"""Hands tasks of queues to workers in any language: over HTTP, over the pipes of a child process, or by files.

`worker_protocol` defines the messages for all transports. `http_endpoint` serves them over HTTP, `pipe_worker` exchanges them with one child that performs
many tasks, and `program_per_task` starts a process for each task. All of them lease tasks from `perdure.runtime.task_broker`.
"""
