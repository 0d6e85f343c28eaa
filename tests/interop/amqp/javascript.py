"""amqplib of npm: `amqplib.test.js`, with Node's own test runner."""

import os

from broker import Case
from common.node import NodeTests


class Amqplib(NodeTests, Case):
    package = "amqplib@2.3.1"
    tests = os.path.join(os.path.dirname(os.path.abspath(__file__)), "amqplib.test.js")

    def test_amqplib(self):
        self.run_node(120, BROKER_URL=self.url)
