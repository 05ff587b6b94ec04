"""The migrations of the tables of `perdure.django`."""
