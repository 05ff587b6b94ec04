"""The client of a server: calls operations over HTTP, with the same results and errors as on a store."""
