"""MQTT 5's properties and AMQP's, both ways over the real binary: paho-mqtt and pika."""

import time
import unittest

import pika

from broker import PATIENCE, Case, Target

BINARY = bytes(range(256))


def leave(connection):
    try:
        if connection.is_open:
            connection.close()
    except pika.exceptions.AMQPError:
        pass  # the broker was killed


@unittest.skipIf(Target.mosquitto, "speaks no AMQP")
class Bridge(Case):
    def channel(self):
        parameters = pika.ConnectionParameters("127.0.0.1", self.broker.amqp_port, heartbeat=60)
        connection = pika.BlockingConnection(parameters)
        self.addCleanup(leave, connection)
        channel = connection.channel()
        channel.confirm_delivery()
        return channel

    def bound(self, key="#", **options):
        channel = self.channel()
        channel.queue_declare("q", **options)
        channel.queue_bind("q", "amq.topic", key)
        return channel

    def take(self, channel):
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            method, properties, body = channel.basic_get("q", auto_ack=True)
            if method:
                return method, properties, body
            time.sleep(0.01)
        self.fail("nothing came")

    def say(self, channel, key, body="x", **properties):
        channel.basic_publish("amq.topic", key, body, pika.BasicProperties(**properties))

    def test_from_mqtt(self):
        """Content type, correlation data, response topic, expiry and user properties."""
        channel = self.bound("a.#")
        self.paho("p").publish(
            "a/b",
            BINARY,
            ContentType="text/plain; ☃",
            CorrelationData=b"number 7",
            ResponseTopic="answers",
            MessageExpiryInterval=60,
            UserProperty=[("b", "2"), ("a", "☃")],
        )
        method, properties, body = self.take(channel)
        self.assertEqual((method.routing_key, body, properties.delivery_mode), ("a.b", BINARY, 2))
        self.assertEqual((properties.content_type, properties.correlation_id), ("text/plain; ☃", "number 7"))
        self.assertEqual(properties.reply_to, "answers")
        self.assertIn(int(properties.expiration), range(55_000, 60_001))
        headers = [(k, v) for k, v in properties.headers.items() if not k.startswith("x-")]
        self.assertEqual(headers, [("b", "2"), ("a", "☃")])

    def test_nothing_from_nothing(self):
        """A message without properties has none there."""
        channel = self.bound()
        self.paho("p").publish("a", "x")
        properties = self.take(channel)[1]
        for name in ("content_type", "correlation_id", "reply_to", "expiration"):
            self.assertIsNone(getattr(properties, name), name)

    def test_from_amqp(self):
        """The same the other way."""
        wire = self.subscribed("c", ("a/#", 2))
        given = dict(content_type="text/plain", correlation_id="number 7", reply_to="answers", expiration="60000")
        self.say(self.channel(), "a.b", BINARY, delivery_mode=2, headers={"b": "2", "a": "☃"}, **given)
        found = wire.message()
        self.assertEqual((found.topic, found.payload, found.qos), ("a/b", BINARY, 1))
        self.assertEqual(found.properties["content_type"], "text/plain")
        self.assertEqual(found.properties["correlation_data"], b"number 7")
        self.assertEqual(found.properties["response_topic"], "answers")
        self.assertIn(found.properties["message_expiry"], (59, 60))
        self.assertEqual(found.properties["user"], [("b", "2"), ("a", "☃")])

    def test_request_over_the_bridge(self):
        """An AMQP service answers an MQTT client by what it was told, and finds it again in the answer."""
        channel = self.bound("ask")
        client = self.subscribed("c", "answers/c")
        client.publish("ask", "6*7", response_topic="answers/c", correlation_data=b"\x01id")
        _, asked, _ = self.take(channel)
        key = asked.reply_to.replace("/", ".")
        self.say(channel, key, "42", correlation_id=asked.correlation_id)
        found = client.message()
        self.assertEqual((found.payload, found.properties.get("correlation_data")), (b"42", b"\x01id"))

    def test_request_the_other_way(self):
        """An MQTT service answers an AMQP client."""
        channel = self.bound("answers.c")
        service = self.subscribed("s", "ask")
        self.say(channel, "ask", "6*7", reply_to="answers.c", correlation_id="id")
        asked = service.message()
        topic = asked.properties["response_topic"].replace(".", "/")
        service.send(b"")
        self.connected("p").publish(topic, "42", correlation_data=asked.properties["correlation_data"])
        _, properties, body = self.take(channel)
        self.assertEqual((properties.correlation_id, body), ("id", b"42"))

    def test_expiry_is_lessened(self):
        """What has waited in a queue, or for a session, has less left on the other side."""
        self.subscribed("s", "a", clean=False, session_expiry=60).leave()
        channel = self.channel()
        self.say(channel, "a", "x", expiration="10000", delivery_mode=2)
        self.say(channel, "a", "short", expiration="1000", delivery_mode=2)
        time.sleep(2.1)
        wire = self.connected("s", clean=False, session_expiry=60)
        found = wire.message()
        self.assertEqual(found.payload, b"x")
        self.assertIn(found.properties["message_expiry"], (7, 8))
        self.assertSilent(wire)

    def test_expiry_in_a_queue(self):
        """A message that MQTT sends with an expiry expires in a queue."""
        channel = self.bound()
        publisher = self.connected("p")
        publisher.publish("a", "short", message_expiry=1)
        publisher.publish("a", "long", message_expiry=30)
        time.sleep(2.1)
        self.assertEqual(self.take(channel)[2], b"long")

    def test_over_a_kill(self):
        """Properties are on disk with their message, on either side."""
        self.subscribed("s", "from/amqp", clean=False, session_expiry=60).leave()
        channel = self.bound("from.mqtt", durable=True)
        self.connected("p").publish("from/mqtt", "x", content_type="t", correlation_data=b"c", user=[("k", "v")])
        self.say(channel, "from.amqp", "y", content_type="t", correlation_id="c", headers={"k": "v"}, delivery_mode=2)
        self.broker.restart()
        properties = self.take(self.channel())[1]
        self.assertEqual((properties.content_type, properties.correlation_id, properties.headers["k"]), ("t", "c", "v"))
        found = self.connected("s", clean=False, session_expiry=60).message()
        self.assertEqual(found.properties, dict(content_type="t", correlation_data=b"c", user=[("k", "v")]))

    def test_what_the_other_side_cannot_hold(self):
        """Too long, no text, or of another kind: the message passes, and the broker lives."""
        channel = self.bound()
        publisher = self.connected("p")
        publisher.publish("a", "1", content_type="t" * 300)
        publisher.publish("a", "2", correlation_data=BINARY * 2)
        publisher.publish("a", "3", user=[("k" * 300, "v"), ("k", "v" * 70), ("k", "w")])
        publisher.publish("a", "4", response_topic="r" * 300)
        self.assertEqual([self.take(channel)[2] for _ in range(4)], [b"1", b"2", b"3", b"4"])
        wire = self.subscribed("c", "b")
        table = {"n": 7, "t": {"a": 1}, "l": [1, 2], "none": None, "bytes": b"\xff\0", "flag": True}
        self.say(channel, "b", "5", headers=table)
        self.say(channel, "b", "6", reply_to="a.#", content_type="")
        self.assertEqual([m.payload for m in wire.messages(2)], [b"5", b"6"])
        self.assertLives()

    def test_shared_with_queues(self):
        """A group and a queue each get what AMQP says."""
        channel = self.bound("a")
        one, two = self.subscribed("1", "$share/g/a"), self.subscribed("2", "$share/g/a")
        for number in range(10):
            self.say(channel, "a", f"{number}", delivery_mode=2)
        self.assertEqual([self.take(channel)[2] for _ in range(10)], [b"%d" % n for n in range(10)])
        found = []
        for wire in (one, two):
            packet = wire.ping()
            while packet.kind == "PUBLISH":
                found.append(packet.payload)
                packet = wire.packet()
        self.assertEqual(sorted(found), [b"%d" % n for n in range(10)])
