"""What holds for all tests: properties that set no number of their own are tried with few examples in each run. Long searches are marked `prove`."""

from hypothesis import settings

settings.register_profile("each run", max_examples=40)
settings.load_profile("each run")
