"""amqp-tools of Debian, which stand on librabbitmq."""

import subprocess

from broker import PATIENCE, Case


class Tools(Case):
    def tool(self, program, *arguments, **options):
        command = [f"amqp-{program}", f"--url=amqp://guest:guest@127.0.0.1:{self.broker.port}", *arguments]
        done = subprocess.run(command, capture_output=True, timeout=PATIENCE, **options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_from_publish_to_get(self):
        self.assertEqual(self.tool("declare-queue", "-d", "-q", "tasks"), b"tasks\n")
        body = bytes(range(256)) * 2000
        self.tool("publish", "-r", "tasks", "-p", "-C", "application/x", input=body)
        self.assertEqual(self.tool("get", "-q", "tasks"), body)
        empty = subprocess.run(
            ["amqp-get", f"--url=amqp://127.0.0.1:{self.broker.port}", "-q", "tasks"], timeout=PATIENCE
        )
        self.assertEqual(empty.returncode, 2, "2 says that there is nothing")
        self.tool("publish", "-r", "tasks", "-b", "left")
        self.assertEqual(self.tool("delete-queue", "-q", "tasks"), b"1\n")

    def test_consume_by_a_command(self):
        self.tool("declare-queue", "-q", "lines")
        for line in ("one\n", "two\n", "three\n"):
            self.tool("publish", "-r", "lines", "-b", line)
        self.assertEqual(self.tool("consume", "-q", "lines", "-c", "3", "-p", "1", "cat"), b"one\ntwo\nthree\n")

    def test_consume_from_an_exchange(self):
        consumer = subprocess.Popen(
            ["amqp-consume", f"--url=amqp://127.0.0.1:{self.broker.port}", "-e", "amq.topic", "-r", "a.#", "-c", "1", "cat"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        channel = self.channel(confirms=True)
        channel.exchange_declare("probe", "fanout")

        def arrived():
            self.tool("publish", "-e", "amq.topic", "-r", "a.b", "-b", "heard")
            return consumer.poll() is not None

        self.until(arrived, "the consumer has had its message")
        self.assertEqual(consumer.communicate(timeout=PATIENCE)[0], b"heard")
