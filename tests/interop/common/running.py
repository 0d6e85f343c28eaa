"""A run of test modules, as `python3 tests/interop/NAME` does it: silent if all is well."""

import io
import logging
import sys
import unittest


def add_arguments(parser):
    parser.add_argument("-k", action="append")
    parser.add_argument("-v", action="store_true")


def run(modules, given):
    logging.disable(logging.CRITICAL)  # some clients tell of every connection and channel that a test has ended
    loader = unittest.TestLoader()
    loader.testNamePatterns = given.k and [f"*{word}*" for word in given.k]
    suite = loader.loadTestsFromNames(modules.split())
    stream = sys.stderr if given.v else io.StringIO()
    result = unittest.TextTestRunner(stream, verbosity=2 if given.v else 0).run(suite)
    if not result.wasSuccessful():
        sys.exit(stream.getvalue() if not given.v else 1)
    if result.testsRun == 0:
        sys.exit("no test has run")
