"""What holds for all tests: a property that sets no number of its own is tried with some examples in each run. Long searches have the mark `prove`, and a number."""

from hypothesis import settings

settings.register_profile("each run", max_examples=40)
settings.load_profile("each run")
