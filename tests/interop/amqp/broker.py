"""The broker under test, and what every test needs of it."""

import subprocess
import time
import unittest

import pika
from pika.exceptions import ChannelClosedByBroker, ConnectionClosedByBroker

from common.process import PATIENCE, Process, free_port


class Target:
    """What the tests run against."""

    binary = None
    # `HOST:PORT` of a RabbitMQ that runs already, to see what is meant to be the same: tests that restart the broker or speak
    # MQTT are left out, and `forget` is a command that takes queues and exchanges away again.
    rabbitmq = None
    forget = None


class Vowmq(Process):
    """The real binary."""

    def __init__(self, *settings, configuration=""):
        self.settings, self.configuration = settings, configuration
        self.port, self.mqtt_port = free_port(), free_port()
        super().__init__()

    def text(self):
        settings = (one.split("=", 1) for one in self.settings)
        return "".join(f'{name} = "{value}"\n' for name, value in settings) + self.configuration

    def change(self, *settings):
        """Other settings, while it runs."""
        self.settings = settings
        self.reconfigure(self.text())

    def start(self):
        addresses = ("--amqp", f"127.0.0.1:{self.port}", "--mqtt", f"127.0.0.1:{self.mqtt_port}")
        self.run_vowmq(Target.binary, *addresses, "--config", self.configure(self.text()))


class RabbitMQ:
    """One that runs already."""

    def __init__(self):
        host, port = Target.rabbitmq.split(":")
        self.port = int(port)

    def close(self):
        if Target.forget:
            subprocess.run(Target.forget, shell=True, check=True, capture_output=True)


def vowmq_only(test):
    """A test that restarts the broker, speaks MQTT, or shows where vowmq means to differ."""
    return unittest.skipIf(Target.rabbitmq, "only for vowmq")(test)


class Case(unittest.TestCase):
    """A test with a broker of its own."""

    settings = ()
    configuration = ""

    def setUp(self):
        self.broker = RabbitMQ() if Target.rabbitmq else Vowmq(*self.settings, configuration=self.configuration)
        self.addCleanup(self.broker.close)

    @property
    def url(self):
        return f"amqp://guest:guest@127.0.0.1:{self.broker.port}/%2f"

    def connect(self, **parameters):
        given = dict(heartbeat=60, blocked_connection_timeout=PATIENCE, socket_timeout=PATIENCE) | parameters
        connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", self.broker.port, **given))
        self.addCleanup(lambda: hang_up(connection))
        return connection

    def channel(self, confirms=False, **parameters):
        channel = self.connect(**parameters).channel()
        if confirms:
            channel.confirm_delivery()
        return channel

    def publish(self, channel, key, body="x", exchange="", mandatory=False, **properties):
        channel.basic_publish(exchange, key, body, pika.BasicProperties(**properties), mandatory)

    def take(self, channel, queue, count, ack=True):
        """So many messages by Basic.Get, waiting for each; `(method, properties, body)`."""
        found = []
        until = time.monotonic() + PATIENCE
        while len(found) < count:
            method, properties, body = channel.basic_get(queue, auto_ack=ack)
            if method:
                found.append((method, properties, body))
            elif time.monotonic() > until:
                self.fail(f"{len(found)} of {count} messages came from {queue}: {[body for _, _, body in found]}")
            else:
                time.sleep(0.01)
        return found

    def bodies(self, channel, queue, count):
        return [body.decode() for _, _, body in self.take(channel, queue, count)]

    def assertEmpty(self, channel, queue):
        method, _, body = channel.basic_get(queue, auto_ack=True)
        self.assertIsNone(method, f"{queue} holds {body}")

    def count(self, channel, queue):
        return channel.queue_declare(queue, passive=True).method.message_count

    def until(self, what, claim):
        """Waits until `what()` is true."""
        end = time.monotonic() + PATIENCE
        while not what():
            if time.monotonic() > end:
                self.fail(f"did not come about: {claim}")
            time.sleep(0.01)

    def consume(self, channel, queue, **options):
        """A list that fills while the channel's connection is pumped."""
        got = []
        tag = channel.basic_consume(queue, lambda _c, m, p, b: got.append((m, p, b)), **options)
        return got, tag

    def pump(self, channel, what, claim="what was to be delivered"):
        """Handles what comes until `what()` is true."""
        end = time.monotonic() + PATIENCE
        while not what():
            if time.monotonic() > end:
                self.fail(f"did not come: {claim}")
            channel.connection.process_data_events(0.02)

    def quiet(self, channel, seconds=0.15):
        """Handles what comes for a while: for what must not come there is nothing to wait for."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            channel.connection.process_data_events(0.02)

    def refused(self, code, text, channel, deed):
        """The deed closes its channel with that code and a text that holds `text`."""
        with self.assertRaises(ChannelClosedByBroker, msg=f"{code} {text}") as caught:
            deed()
            channel.basic_qos()  # an answer to this comes after what the deed brings about
        self.assertEqual(caught.exception.reply_code, code, caught.exception.reply_text)
        self.assertIn(text, caught.exception.reply_text)

    def closed(self, code, text, channel, deed):
        """The deed closes its connection with that code and a text that holds `text`."""
        with self.assertRaises(ConnectionClosedByBroker, msg=f"{code} {text}") as caught:
            deed()
            channel.basic_qos()
        self.assertEqual(caught.exception.reply_code, code, caught.exception.reply_text)
        self.assertIn(text, caught.exception.reply_text)


def hang_up(connection):
    try:
        connection.close()
    except pika.exceptions.AMQPError:
        pass
