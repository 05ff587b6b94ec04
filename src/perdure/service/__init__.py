"""Operations and queries on executions, for any process that can open the store. They need only the `Store` protocol."""
