"""What a process tells about its work: logs as JSON, metrics for Prometheus, traces of OpenTelemetry. Nothing here is loaded unless it is asked for."""
