"""AMQP clients that nobody here wrote, against the real binary: pika, aio-pika, Celery, amqp-tools, amqplib.

    python3 tests/interop/amqp PATH_OF_VOWMQ [-k WORD] [-v]
    python3 tests/interop/amqp --rabbitmq HOST:PORT [--forget COMMAND]

needs tests/interop/requirements.txt, Debian's amqp-tools, and Node with npm (which gets amqplib into a temporary
directory). A missing client is a failure, not a skip. Prints nothing when all is well. Against a RabbitMQ the same tests
show what is meant to be the same; COMMAND takes queues and exchanges away between tests.
"""

import argparse
import io
import logging
import os
import sys
import unittest

from broker import Target

MODULES = "patterns publishing declaring delivery leaving connecting durability delaying bridge reports tools aio celery_tasks javascript"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("binary", nargs="?")
    parser.add_argument("--rabbitmq")
    parser.add_argument("--forget")
    parser.add_argument("-k", action="append")
    parser.add_argument("-v", action="store_true")
    given = parser.parse_args()
    if bool(given.binary) == bool(given.rabbitmq):
        parser.error("name the binary, or a RabbitMQ")
    Target.binary = given.binary and os.path.abspath(given.binary)
    Target.rabbitmq, Target.forget = given.rabbitmq, given.forget
    logging.disable(logging.CRITICAL)  # pika tells of every channel that a test has closed
    loader = unittest.TestLoader()
    loader.testNamePatterns = given.k and [f"*{word}*" for word in given.k]
    suite = loader.loadTestsFromNames(MODULES.split())
    stream = sys.stderr if given.v else io.StringIO()
    result = unittest.TextTestRunner(stream, verbosity=2 if given.v else 0).run(suite)
    if not result.wasSuccessful():
        sys.exit(stream.getvalue() if not given.v else 1)
    if result.testsRun == 0:
        sys.exit("no test has run")


main()
