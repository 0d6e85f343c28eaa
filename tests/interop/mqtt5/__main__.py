"""MQTT 5 by clients that nobody here wrote, against the real binary: paho-mqtt, gmqtt, MQTT.js, mosquitto's clients, paho C.

    python3 tests/interop/mqtt5 PATH_OF_VOWMQ [-k WORD] [-v]
    python3 tests/interop/mqtt5 --mosquitto [-k WORD] [-v]

needs tests/interop/requirements.txt, Debian's mosquitto-clients and paho.mqtt.c-examples, and Node with npm (which gets
MQTT.js into a temporary directory). A missing client is a failure, not a skip. Prints nothing when all is well. What
clients would never send is sent as bytes (`wire.py`). Against a Mosquitto the same tests show that they are right; where
it departs from the specification a test says so and is left out.

An id such as MQTT5-3.3.2-5 in brackets names the statement of `tests/clauses/mqtt-5.0.txt` that a test checks.
"""

import argparse
import os
import sys

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from broker import Target
from common.running import add_arguments, run

MODULES = (
    "connecting malformed sessions taking_over properties flow aliases options retaining expiring wills acknowledging sharing"
    " versions durability bridge reports tools gmqtt_client javascript answering unsubscribing bounds authenticating"
)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("binary", nargs="?")
    parser.add_argument("--mosquitto", action="store_true")
    add_arguments(parser)
    given = parser.parse_args()
    if bool(given.binary) == given.mosquitto:
        parser.error("name the binary, or ask for Mosquitto")
    Target.binary, Target.mosquitto = given.binary and os.path.abspath(given.binary), given.mosquitto
    run(MODULES, given)


main()
