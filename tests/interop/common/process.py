"""A broker as a process on a directory of its own."""

import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile

PATIENCE = 10


def free_port():
    """One below those that systems give to clients: a connection of somebody else must not take it before the broker does."""
    while True:
        port = random.randrange(10000, 32000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


class Process:
    """What it says on its error output is in `log`, in its directory. A subclass knows how to `start` it."""

    def __init__(self):
        self.directory = tempfile.mkdtemp()
        self.start()

    def run(self, *command):
        with open(os.path.join(self.directory, "log"), "a") as log:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)

    def run_vowmq(self, binary, *arguments):
        """The real binary, until it is ready."""
        self.run(binary, "--data-dir", os.path.join(self.directory, "store"), *arguments)
        for line in self.process.stdout:
            if line.strip() == "ready":
                return
        raise AssertionError(f"the broker did not get ready: {self.said()}")

    def configure(self, text):
        """Writes the configuration file; where it is."""
        with open(os.path.join(self.directory, "vowmq.toml"), "w") as file:
            file.write(text)
        return file.name

    def reconfigure(self, text):
        """Another configuration, while it runs."""
        self.configure(text)
        self.process.send_signal(signal.SIGHUP)

    def said(self):
        with open(os.path.join(self.directory, "log")) as log:
            return log.read()

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()

    def restart(self):
        self.kill()
        self.start()

    def stop(self):
        self.process.terminate()
        code = self.process.wait(PATIENCE)
        self.process.stdout.close()
        return code

    def close(self):
        code = self.process.returncode if self.process.stdout.closed else self.stop()
        said = self.said()
        shutil.rmtree(self.directory)
        assert code == 0 and "panicked" not in said, f"exit code {code} after SIGTERM: {said}"
