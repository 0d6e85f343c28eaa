"""Clients that nobody here wrote, against the real binary: mosquitto_pub, mosquitto_sub, paho-mqtt.

    python3 tests/interop/mqtt.py PATH_OF_VOWMQ

needs mosquitto's clients (Debian: mosquitto-clients) and tests/interop/requirements.txt. A missing client is a
failure, not a skip.
"""

import os
import queue
import subprocess
import sys
import time
import unittest

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion

from common.process import PATIENCE, Process, free_port

BINARY = None


class Broker(Process):
    """The real binary."""

    def __init__(self):
        self.port = free_port()
        super().__init__()

    def start(self):
        self.run_vowmq(BINARY, "--mqtt", f"127.0.0.1:{self.port}")


def mosquitto(program, broker, *arguments, **options):
    return subprocess.run(
        [program, "-h", "127.0.0.1", "-p", str(broker.port), *arguments],
        capture_output=True,
        timeout=PATIENCE,
        **options,
    )


def publish(broker, *arguments, **options):
    done = mosquitto("mosquitto_pub", broker, *arguments, **options)
    assert done.returncode == 0, done.stderr


def subscribe_once(broker, client, *arguments):
    """A durable subscription that is left at once."""
    done = mosquitto("mosquitto_sub", broker, "-c", "-i", client, "-E", *arguments)
    assert done.returncode == 0, done.stderr


class Paho:
    """A paho client with what it was told."""

    def __init__(self, broker, client, clean, protocol=paho.MQTTv311, will=None):
        self.messages = queue.Queue()
        self.connected = queue.Queue()
        self.subscribed = queue.Queue()
        self.client = paho.Client(CallbackAPIVersion.VERSION2, client, clean_session=clean, protocol=protocol)
        self.client.on_message = lambda _client, _data, message: self.messages.put(message)
        self.client.on_connect = lambda _c, _d, flags, reason, _p: self.connected.put((flags.session_present, reason))
        self.client.on_subscribe = lambda _c, _d, _mid, reasons, _p: self.subscribed.put(reasons)
        if will:
            self.client.will_set(*will)
        self.client.connect("127.0.0.1", broker.port, keepalive=30)
        self.client.loop_start()
        self.session_present, reason = self.connected.get(timeout=PATIENCE)
        assert not reason.is_failure, reason

    def subscribe(self, topic, qos):
        self.client.subscribe(topic, qos)
        return self.subscribed.get(timeout=PATIENCE)

    def publish(self, topic, payload, qos, retain=False):
        self.client.publish(topic, payload, qos, retain).wait_for_publish(PATIENCE)

    def next(self):
        return self.messages.get(timeout=PATIENCE)

    def close(self):
        self.client.disconnect()
        self.client.loop_stop()

    def break_off(self):
        self.client.loop_stop()
        self.client.socket().close()


class Interoperability(unittest.TestCase):
    def setUp(self):
        self.broker = Broker()
        self.addCleanup(self.broker.close)

    def test_mosquitto_every_qos(self):
        for qos in "012":
            subscriber = subprocess.Popen(
                # A line at a time, or its output would stay in its buffer until it ends.
                ["stdbuf", "-oL", "mosquitto_sub", "-p", str(self.broker.port), "-t", "a/+", "-q", qos, "-C", "1"]
                + ["-v", "-d", "-W", str(PATIENCE)],
                stdout=subprocess.PIPE,
                text=True,
            )
            for line in subscriber.stdout:
                if "SUBACK" in line:
                    break
            publish(self.broker, "-t", "a/b", "-m", f"with {qos}", "-q", qos)
            self.assertIn(f"a/b with {qos}\n", subscriber.communicate(timeout=PATIENCE)[0])

    def test_mosquitto_acknowledged_survives_sigkill(self):
        subscribe_once(self.broker, "store", "-t", "s/#", "-q", "2")
        for number in range(20):
            publish(self.broker, "-t", f"s/{number}", "-m", str(number), "-q", str(1 + number % 2))
        self.broker.kill()
        self.broker.start()
        done = mosquitto("mosquitto_sub", self.broker, "-c", "-i", "store", "-t", "s/#", "-q", "2", "-C", "20")
        numbers = [int(word) for word in done.stdout.split()]
        # Order is kept per QoS: mosquitto_sub shows a QoS 2 message when its exchange has ended.
        self.assertEqual([n for n in numbers if n % 2 == 0], list(range(0, 20, 2)))
        self.assertEqual([n for n in numbers if n % 2 == 1], list(range(1, 20, 2)))

    def test_mosquitto_retained_binary(self):
        body = bytes(range(256)) * 100
        publish(self.broker, "-t", "r/x", "-s", "-r", "-q", "1", input=body)
        self.broker.kill()
        self.broker.start()
        done = mosquitto("mosquitto_sub", self.broker, "-t", "r/+", "-C", "1", "-N")
        self.assertEqual(done.stdout, body)
        publish(self.broker, "-t", "r/x", "-n", "-r", "-q", "1")
        done = mosquitto("mosquitto_sub", self.broker, "-t", "r/+", "-W", "1")
        self.assertEqual(done.stdout, b"")

    def test_mosquitto_speaks_3_1(self):
        subscribe_once(self.broker, "old", "-V", "mqttv31", "-t", "o", "-q", "1")
        publish(self.broker, "-V", "mqttv31", "-t", "o", "-m", "old", "-q", "1")
        done = mosquitto("mosquitto_sub", self.broker, "-V", "mqttv31", "-c", "-i", "old", "-t", "o", "-q", "1", "-C", "1")
        self.assertEqual(done.stdout, b"old\n")

    def test_paho_every_qos_and_size(self):
        subscriber = Paho(self.broker, "sub", clean=False)
        subscriber.subscribe("p/#", 2)
        publisher = Paho(self.broker, "pub", clean=True)
        for qos in (0, 1, 2):
            for size in (0, 1, 65535, 65536, 300000):
                body = os.urandom(size)
                publisher.publish(f"p/{size}", body, qos)
                message = subscriber.next()
                self.assertEqual((message.qos, message.payload), (qos, body))
        publisher.close()
        subscriber.close()

    def test_paho_queue_keeps_its_order_over_restarts(self):
        subscriber = Paho(self.broker, "sub", clean=False)
        subscriber.subscribe("q", 2)
        subscriber.close()
        publisher = Paho(self.broker, "pub", clean=True)
        for number in range(100):
            publisher.publish("q", str(number), 2)
        publisher.close()
        self.broker.kill()
        self.broker.start()
        subscriber = Paho(self.broker, "sub", clean=False)
        self.assertTrue(subscriber.session_present)
        self.assertEqual([int(subscriber.next().payload) for _ in range(100)], list(range(100)))
        subscriber.close()

    def test_paho_will(self):
        watcher = Paho(self.broker, "watcher", clean=True)
        watcher.subscribe("w", 1)
        Paho(self.broker, "device", clean=True, will=("w", "gone", 1, True)).break_off()
        self.assertEqual(watcher.next().payload, b"gone")
        Paho(self.broker, "polite", clean=True, will=("w", "never", 1, False)).close()
        time.sleep(0.2)  # nothing to wait for: the message must not come
        self.assertTrue(watcher.messages.empty())
        watcher.close()

    def test_paho_will_after_a_crash_of_the_broker(self):
        device = Paho(self.broker, "device", clean=True, will=("crash", "gone", 1, True))
        self.broker.kill()
        device.client.loop_stop()
        self.broker.start()
        late = Paho(self.broker, "late", clean=True)
        late.subscribe("crash", 1)
        message = late.next()
        self.assertEqual((message.payload, message.retain), (b"gone", True))
        late.close()

    def test_paho_takeover(self):
        first = Paho(self.broker, "same", clean=False)
        first.client.reconnect_delay_set(60, 60)
        second = Paho(self.broker, "same", clean=False)
        self.assertTrue(second.session_present)
        second.subscribe("t", 1)
        publish(self.broker, "-t", "t", "-m", "to the second", "-q", "1")
        self.assertEqual(second.next().payload, b"to the second")
        self.assertTrue(first.messages.empty())
        first.client.loop_stop()
        second.close()

    def test_paho_speaks_3_1(self):
        client = Paho(self.broker, "old", clean=True, protocol=paho.MQTTv31)
        client.subscribe("o", 2)
        client.publish("o", "31", 2)
        self.assertEqual(client.next().payload, b"31")
        client.close()


if __name__ == "__main__":
    BINARY = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
