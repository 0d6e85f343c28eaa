"""A package of npm, tested by Node's own test runner."""

import os
import shutil
import subprocess
import tempfile


class NodeTests:
    """For a test case: has `package` in a temporary directory, and runs the file `tests` there."""

    package = tests = None

    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.directory.cleanup)
        command = ["npm", "install", "--silent", "--no-audit", "--no-fund", cls.package]
        subprocess.run(command, cwd=cls.directory.name, check=True, capture_output=True, timeout=300)
        shutil.copy(cls.tests, cls.directory.name)

    def run_node(self, patience, **environment):
        done = subprocess.run(
            ["node", "--test", os.path.basename(self.tests)],
            cwd=self.directory.name,
            env=os.environ | environment,
            capture_output=True,
            text=True,
            timeout=patience,
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
