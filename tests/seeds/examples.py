"""Every example of the seeds and of the format in one table: what must be read, compiled and run."""

from tests.seeds import examples_of_000, examples_of_001, examples_of_004, examples_of_format
from tests.seeds.example import Example
from tests.seeds.examples_of_004 import BLOBS, NO_DEFINITIONS, PATCH

__all__ = ["BLOBS", "EXAMPLES", "NO_DEFINITIONS", "PATCH", "Example"]

EXAMPLES = [*examples_of_000.EXAMPLES, *examples_of_001.EXAMPLES, *examples_of_004.EXAMPLES, *examples_of_format.EXAMPLES]
