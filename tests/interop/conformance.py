"""The MQTT conformance tests of the Eclipse Paho project, for 3.1.1 and 5, against the real binary.

    python3 tests/interop/conformance.py PATH_OF_VOWMQ CHECKOUT [-k WORD] [-v]
    python3 tests/interop/conformance.py --mosquitto CHECKOUT [-k WORD] [-v]

CHECKOUT is one of github.com/eclipse/paho.mqtt.testing, tested with 9d7bb80. No package registry has it, so this is run by
hand. Each test has a process and a broker of its own. What EXCUSED names is run all the same, and the reason is shown.
"""

import argparse
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "mqtt5"))

from broker import Mosquitto, Target, Vowmq

PATIENCE = 150

# Tests that ask for a setting of one broker, not for what the specification says.
EXCUSED = {
    "client_test.test_subscribe_failure": "asks for a broker that refuses the filter test/nosubscribe",
    "client_test5.test_subscribe_failure": "asks for a broker that refuses the filter test/nosubscribe",
    "client_test5.test_server_keep_alive": "asks for a broker that names 60 s where a client asks for 120 s",
}

# What the suite does when it is run as a program, and one of its tests.
ONE = """
import importlib, logging, sys, unittest
sys.path.insert(0, ".")
module, name, port = sys.argv[1:]
logging.getLogger().setLevel(logging.ERROR)
suite = importlib.import_module(module)
suite.host, suite.port, suite.topic_prefix = "127.0.0.1", int(port), "client_test5/"
prefix = suite.topic_prefix if module == "client_test5" else ""
suite.topics = [prefix + t for t in ("TopicA", "TopicA/B", "Topic/C", "TopicA/C", "/TopicA")]
suite.wildtopics = [prefix + t for t in ("TopicA/+", "+/C", "#", "/#", "/+", "+/+", "TopicA/#")]
suite.nosubscribe_topics = ("test/nosubscribe",)
suite.setData = lambda: None
found = unittest.defaultTestLoader.loadTestsFromName("Test." + name, suite)
sys.exit(not unittest.TextTestRunner(verbosity=2).run(found).wasSuccessful())
"""

NAMES = """
import importlib, sys, unittest
sys.path.insert(0, ".")
print(*unittest.defaultTestLoader.getTestCaseNames(importlib.import_module(sys.argv[1]).Test))
"""


def suite(directory, code, *arguments):
    """A process of the suite: whether it went well, and what it said."""
    command = [sys.executable, "-W", "ignore", "-c", code, *arguments]
    try:
        done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=PATIENCE)
    except subprocess.TimeoutExpired as late:
        return False, f"{(late.stdout or b'').decode()}{(late.stderr or b'').decode()}not done in {PATIENCE} s"
    return done.returncode == 0, done.stdout + done.stderr


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("places", nargs="+")
    parser.add_argument("--mosquitto", action="store_true")
    parser.add_argument("-k")
    parser.add_argument("-v", action="store_true")
    given = parser.parse_args()
    if len(given.places) != (1 if given.mosquitto else 2):
        parser.error("name the binary and a checkout, or --mosquitto and a checkout")
    Target.mosquitto, Target.binary = given.mosquitto, os.path.abspath(given.places[0])
    directory = os.path.join(os.path.abspath(given.places[-1]), "interoperability")
    passed = failed = 0
    for module in ("client_test", "client_test5"):
        well, names = suite(directory, NAMES, module)
        if not well:
            sys.exit(names)
        for name in names.split():
            whole = f"{module}.{name}"
            if given.k and given.k not in whole:
                continue
            broker, begun = (Mosquitto if given.mosquitto else Vowmq)(), time.monotonic()
            well, said = suite(directory, ONE, module, name, str(broker.port))
            broker.close()
            passed, failed = passed + well, failed + (not well and whole not in EXCUSED)
            verdict = "ok" if well else f"excused: {EXCUSED[whole]}" if whole in EXCUSED else "FAILED"
            print(f"{whole} ({time.monotonic() - begun:.0f} s): {verdict}", flush=True)
            if not well and (given.v or whole not in EXCUSED):
                print(said, flush=True)
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed > 0 or passed == 0)


main()
