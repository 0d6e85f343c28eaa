"""Exchanges that delay, as RabbitMQ's plugin does. With pika."""

import time
import unittest

import pika

from broker import Case, Target


@unittest.skipIf(Target.rabbitmq, "Debian's RabbitMQ does not have the plugin")
class Delaying(Case):
    def setUp(self):
        super().setUp()
        self.channel_ = self.channel(confirms=True)
        self.declare(self.channel_)

    def declare(self, channel):
        channel.exchange_declare("later", "x-delayed-message", durable=True, arguments={"x-delayed-type": "direct"})
        channel.queue_declare("q", durable=True)
        channel.queue_bind("q", "later", "k")

    def publish_delayed(self, body, delay, mode=2):
        properties = pika.BasicProperties(headers={"x-delay": delay}, delivery_mode=mode)
        self.channel_.basic_publish("later", "k", body.encode(), properties)

    def test_each_comes_when_it_is_due(self):
        began = time.monotonic()
        for body, delay in (("third", 600), ("second", 300), ("first", 0)):
            self.publish_delayed(body, delay)
        channel = self.channel()
        came = self.take(channel, "q", 3)
        took = time.monotonic() - began
        self.assertEqual([body.decode() for _, _, body in came], ["first", "second", "third"])
        self.assertGreater(took, 0.55)
        self.assertEqual([properties.headers["x-delay"] for _, properties, _ in came], [0, -300, -600])
        self.assertEmpty(channel, "q")

    def test_delays_are_kept_over_a_kill(self):
        began = time.monotonic()
        self.publish_delayed("kept", 1500)
        self.publish_delayed("gone", 1500, mode=1)
        self.broker.restart()
        channel = self.channel()
        self.assertEmpty(channel, "q")
        self.assertEqual(self.bodies(channel, "q", 1), ["kept"])
        self.assertGreater(time.monotonic() - began, 1.4)
        time.sleep(0.2)
        self.assertEmpty(channel, "q")

    def test_what_waits_goes_with_its_exchange(self):
        self.publish_delayed("gone", 300)
        self.channel_.exchange_delete("later")
        self.declare(self.channel_)
        time.sleep(0.6)
        self.assertEmpty(self.channel(), "q")

    def test_the_queue_behind_is_nobodys(self):
        channel = self.channel()
        self.refused(404, "no queue", channel, lambda: channel.queue_declare("amq.delayed.later", passive=True))
