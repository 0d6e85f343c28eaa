"""The MQTT conformance tests of the Eclipse Paho project, for 3.1.1 and 5, against the real binary.

    python3 tests/interop/conformance.py PATH_OF_VOWMQ CHECKOUT [-k WORD]

CHECKOUT is one of github.com/eclipse/paho.mqtt.testing (tested with 9d7bb80); no package registry has it, so it is run by
hand. Each test runs in a process of its own with a broker of its own. One that is known to be wrong is named in WRONG
with the reason, and is run all the same.
"""

import argparse
import os
import re
import shlex
import subprocess
import sys
import tempfile

import mqtt

PATIENCE = 120

# Tests that ask for what the specification does not, or forbids: the name and the reason.
WRONG = {}

# What the suite does in its `__main__`, and one test by name.
ONE = """
import importlib, logging, sys, unittest
sys.path.insert(0, sys.argv[1])
suite = importlib.import_module(sys.argv[2])
logging.getLogger().setLevel(logging.ERROR)
suite.setData() if hasattr(suite, "setData") else None
suite.host, suite.port, suite.topic_prefix = "127.0.0.1", int(sys.argv[4]), "client_test5/"
if sys.argv[2] == "client_test5":
    names = ["TopicA", "TopicA/B", "Topic/C", "TopicA/C", "/TopicA"]
    wild = ["TopicA/+", "+/C", "#", "/#", "/+", "+/+", "TopicA/#"]
    suite.topics = [suite.topic_prefix + name for name in names]
    suite.wildtopics = [suite.topic_prefix + name for name in wild]
    suite.nosubscribe_topics = ("test/nosubscribe",)
suite.setData = lambda: None
loaded = unittest.defaultTestLoader.loadTestsFromName("Test." + sys.argv[3], suite)
sys.exit(not unittest.TextTestRunner(verbosity=2).run(loaded).wasSuccessful())
"""


class Command(mqtt.Broker):
    """Any other broker, to see what the tests say of it: a command that has `{port}` in it."""

    command = None

    def start(self):
        self.process = subprocess.Popen(
            shlex.split(self.command.format(port=self.port)), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        mqtt.wait_for(self.port)
