"""MQTT.js of npm: `mqtt.test.js`, with Node's own test runner."""

import os

from broker import Case, Target
from common.node import NodeTests


class Mqttjs(NodeTests, Case):
    package = "mqtt@5.16.0"
    tests = os.path.join(os.path.dirname(os.path.abspath(__file__)), "mqtt.test.js")

    def test_mqttjs(self):
        given = {"MOSQUITTO": "yes"} if Target.mosquitto else {}
        self.run_node(180, BROKER_URL=f"mqtt://127.0.0.1:{self.broker.port}", **given)
