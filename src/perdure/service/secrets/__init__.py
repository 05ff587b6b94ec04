"""Stores secrets and finds them by name. `perdure.runtime.call_secrets` puts them into calls and masks them."""
