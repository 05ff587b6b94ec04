"""The Postgres store: one database for the engines and workers of many hosts. The rules of `Store` are carried out in SQL."""
