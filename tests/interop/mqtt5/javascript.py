"""MQTT.js of npm: `mqtt.test.js`, with Node's own test runner."""

import os
import shutil
import subprocess
import tempfile

from broker import Case, Target

HERE = os.path.dirname(os.path.abspath(__file__))
VERSION = "5.16.0"


class Mqttjs(Case):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.directory.cleanup)
        command = ["npm", "install", "--silent", "--no-audit", "--no-fund", f"mqtt@{VERSION}"]
        subprocess.run(command, cwd=cls.directory.name, check=True, capture_output=True, timeout=300)
        shutil.copy(os.path.join(HERE, "mqtt.test.js"), cls.directory.name)

    def test_mqttjs(self):
        given = {"BROKER_URL": f"mqtt://127.0.0.1:{self.broker.port}"} | ({"MOSQUITTO": "yes"} if Target.mosquitto else {})
        done = subprocess.run(
            ["node", "--test", "mqtt.test.js"],
            cwd=self.directory.name,
            env=os.environ | given,
            capture_output=True,
            text=True,
            timeout=180,
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
