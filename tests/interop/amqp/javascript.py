"""amqplib of npm: `amqplib.test.js`, with Node's own test runner."""

import os
import shutil
import subprocess
import tempfile

from broker import Case

HERE = os.path.dirname(os.path.abspath(__file__))
VERSION = "2.3.1"


class Amqplib(Case):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.directory.cleanup)
        command = ["npm", "install", "--silent", "--no-audit", "--no-fund", f"amqplib@{VERSION}"]
        subprocess.run(command, cwd=cls.directory.name, check=True, capture_output=True, timeout=300)
        shutil.copy(os.path.join(HERE, "amqplib.test.js"), cls.directory.name)

    def test_amqplib(self):
        done = subprocess.run(
            ["node", "--test", "amqplib.test.js"],
            cwd=self.directory.name,
            env=os.environ | {"BROKER_URL": self.url},
            capture_output=True,
            text=True,
            timeout=120,
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
