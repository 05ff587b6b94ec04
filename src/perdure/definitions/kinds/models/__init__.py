"""Language models: requests and answers, the same for all providers."""
