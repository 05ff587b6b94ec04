"""What people do with executions, from any process that can open the store: rules of use, over the `Store` protocol alone."""
