"""SampleSets with nothing imitated (real.py says what there is): the walk through the seeds, partitions, and what can go
wrong. Cases run side by side; only the one that kills everybody is alone."""

import unittest

from real import world  # isort: skip: it sets the path, too
import kill_cases
import partition_cases
import walk_cases
from parallel import ParallelSuite


def load_tests(loader, _, __):
    cases = [loader.loadTestsFromModule(module) for module in (walk_cases, partition_cases, kill_cases)]
    return ParallelSuite(cases, world.start, world.stop)


if __name__ == "__main__":
    unittest.main()
