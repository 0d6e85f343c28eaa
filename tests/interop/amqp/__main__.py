"""AMQP clients that nobody here wrote, against the real binary: pika, aio-pika, Celery, amqp-tools, amqplib.

    python3 tests/interop/amqp PATH_OF_VOWMQ [-k WORD] [-v]
    python3 tests/interop/amqp --rabbitmq HOST:PORT [--forget COMMAND]

needs tests/interop/requirements.txt, Debian's amqp-tools, and Node with npm (which gets amqplib into a temporary
directory). A missing client is a failure, not a skip. Prints nothing when all is well. Against a RabbitMQ the same tests
show what is meant to be the same; COMMAND takes queues and exchanges away between tests.
"""

import argparse
import os
import sys

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from broker import Target
from common.running import add_arguments, run

MODULES = "patterns publishing declaring delivery leaving connecting durability delaying bridge reports tools aio celery_tasks javascript users"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("binary", nargs="?")
    parser.add_argument("--rabbitmq")
    parser.add_argument("--forget")
    add_arguments(parser)
    given = parser.parse_args()
    if bool(given.binary) == bool(given.rabbitmq):
        parser.error("name the binary, or a RabbitMQ")
    Target.binary = given.binary and os.path.abspath(given.binary)
    Target.rabbitmq, Target.forget = given.rabbitmq, given.forget
    run(MODULES, given)


main()
