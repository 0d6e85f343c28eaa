"""MQTT 5 by clients that nobody here wrote, against the real binary: paho-mqtt, gmqtt, MQTT.js, mosquitto's clients, paho C.

    python3 tests/interop/mqtt5 PATH_OF_VOWMQ [-k WORD] [-v]
    python3 tests/interop/mqtt5 --mosquitto [-k WORD] [-v]

needs tests/interop/requirements.txt, Debian's mosquitto-clients and paho.mqtt.c-examples, and Node with npm (which gets
MQTT.js into a temporary directory). A missing client is a failure, not a skip. Prints nothing when all is well. What
clients would never send is sent as bytes (`wire.py`). Against a Mosquitto the same tests show that they are right; where
it departs from the specification a test says so and is left out.
"""

import argparse
import io
import logging
import os
import sys
import unittest

from broker import Target

MODULES = (
    "connecting malformed sessions taking_over properties flow aliases options retaining expiring wills acknowledging sharing"
    " versions durability bridge reports tools gmqtt_client javascript"
)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("binary", nargs="?")
    parser.add_argument("--mosquitto", action="store_true")
    parser.add_argument("-k", action="append")
    parser.add_argument("-v", action="store_true")
    given = parser.parse_args()
    if bool(given.binary) == given.mosquitto:
        parser.error("name the binary, or ask for Mosquitto")
    Target.binary, Target.mosquitto = given.binary and os.path.abspath(given.binary), given.mosquitto
    logging.disable(logging.CRITICAL)  # pika and gmqtt tell of every connection that a test has ended
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
