"""From MQTT to AMQP and back, over the real binary: paho-mqtt and pika."""

import queue
import unittest

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion

from broker import PATIENCE, Case, Target

BINARY = bytes(range(256))


class Mqtt:
    """A paho client with what it was told."""

    def __init__(self, port, client="", clean=True):
        self.messages, connected, self.subscribed = queue.Queue(), queue.Queue(), queue.Queue()
        self.client = paho.Client(CallbackAPIVersion.VERSION2, client, clean_session=clean)
        self.client.on_message = lambda _c, _d, message: self.messages.put(message)
        self.client.on_connect = lambda *_: connected.put(True)
        self.client.on_subscribe = lambda *_: self.subscribed.put(True)
        self.client.connect("127.0.0.1", port, keepalive=30)
        self.client.loop_start()
        connected.get(timeout=PATIENCE)

    def subscribe(self, topic, qos=1):
        self.client.subscribe(topic, qos)
        self.subscribed.get(timeout=PATIENCE)

    def publish(self, topic, payload, qos=1):
        self.client.publish(topic, payload, qos).wait_for_publish(PATIENCE)

    def next(self):
        return self.messages.get(timeout=PATIENCE)

    def close(self):
        self.client.disconnect()
        self.client.loop_stop()


@unittest.skipIf(Target.rabbitmq, "only for vowmq")
class Bridge(Case):
    def mqtt(self, *arguments, **options):
        client = Mqtt(self.broker.mqtt_port, *arguments, **options)
        self.addCleanup(client.close)
        return client

    def test_sensor_to_durable_queue_over_a_kill(self):
        channel = self.channel()
        channel.queue_declare("readings", durable=True)
        channel.queue_bind("readings", "amq.topic", "sensors.*.temperature")
        sensor = self.mqtt()
        for number in range(50):
            sensor.publish(f"sensors/{number}/temperature", BINARY + bytes([number]), qos=1 + number % 2)
            sensor.publish(f"sensors/{number}/humidity", "elsewhere")
        sensor.client.loop_stop()
        self.broker.restart()
        came = self.take(self.channel(), "readings", 50)
        self.assertEqual([body for _, _, body in came], [BINARY + bytes([number]) for number in range(50)])
        self.assertEqual([m.routing_key for m, _, _ in came], [f"sensors.{number}.temperature" for number in range(50)])
        self.assertEqual({(m.exchange, m.redelivered) for m, _, _ in came}, {("amq.topic", False)})
        self.assertEqual({p.delivery_mode for _, p, _ in came}, {2})

    def test_consumer_of_what_sensors_say(self):
        channel = self.channel()
        name = channel.queue_declare("", exclusive=True).method.queue
        channel.queue_bind(name, "amq.topic", "a.#")
        got, _ = self.consume(channel, name, auto_ack=True)
        sensor = self.mqtt()
        for qos in (0, 1, 2):
            sensor.publish("a/b.c/d", f"{qos}", qos)
        self.pump(channel, lambda: len(got) == 3)
        self.assertEqual({method.routing_key for method, _, _ in got}, {"a.b/c.d"})
        self.assertEqual([p.delivery_mode for _, p, _ in got], [1, 2, 2])
        self.assertEqual([body for _, _, body in got], [b"0", b"1", b"2"])

    def test_command_to_subscriber(self):
        lamp = self.mqtt()
        lamp.subscribe("lamps/+/set", 1)
        channel = self.channel(confirms=True)
        self.publish(channel, "lamps.7.set", BINARY, "amq.topic", delivery_mode=2, mandatory=False)
        message = lamp.next()
        self.assertEqual((message.topic, message.payload, message.qos), ("lamps/7/set", BINARY, 1))
        self.publish(channel, "lamps.7.set", "", "amq.topic", delivery_mode=1)
        message = lamp.next()
        self.assertEqual((message.payload, message.qos, message.retain), (b"", 0, False))

    def test_retained_by_a_header(self):
        channel = self.channel(confirms=True)
        self.publish(channel, "state.door", "open", "amq.topic", delivery_mode=2, headers={"x-mqtt-retain": True})
        self.publish(channel, "state.window", "open", "amq.topic", delivery_mode=2)
        self.broker.restart()
        late = self.mqtt()
        late.subscribe("state/#")
        message = late.next()
        self.assertEqual((message.topic, message.payload, message.retain), ("state/door", b"open", True))
        channel = self.channel(confirms=True)
        self.publish(channel, "state.end", "end", "amq.topic")
        self.assertEqual(late.next().payload, b"end")

    def test_session_that_is_away_gets_what_amqp_says(self):
        away = self.mqtt("away", clean=False)
        away.subscribe("news/#", 1)
        away.close()
        channel = self.channel(confirms=True)
        self.publish(channel, "news.1", "kept", "amq.topic", delivery_mode=2)
        self.broker.restart()
        back = self.mqtt("away", clean=False)
        self.assertEqual(back.next().payload, b"kept")

    def test_no_loop(self):
        channel = self.channel(confirms=True)
        name = channel.queue_declare("").method.queue
        channel.queue_bind(name, "amq.topic", "#")
        client = self.mqtt()
        client.subscribe("#")
        self.publish(channel, "once", "from AMQP", "amq.topic")
        client.publish("once", "from MQTT")
        self.assertEqual([client.next().payload for _ in range(2)], [b"from AMQP", b"from MQTT"])
        self.assertEqual(self.bodies(channel, name, 2), ["from AMQP", "from MQTT"])
        self.quiet(channel)
        self.assertEmpty(channel, name)
        self.assertTrue(client.messages.empty())

    def test_by_way_of_another_exchange(self):
        client = self.mqtt()
        client.subscribe("orders/new")
        channel = self.channel(confirms=True)
        channel.exchange_declare("shop", "direct")
        channel.exchange_bind("amq.topic", "shop", "orders.new")
        self.publish(channel, "orders.new", "1", "shop", mandatory=True)
        self.assertEqual(client.next().payload, b"1")

    def test_long_topic(self):
        channel = self.channel()
        name = channel.queue_declare("").method.queue
        channel.queue_bind(name, "amq.topic", "long.#")
        client = self.mqtt()
        client.subscribe("long/#")
        topic = "long/" + "x" * 300
        client.publish(topic, "1")
        client.publish("long/short", "2")
        self.assertEqual([client.next().topic for _ in range(2)], [topic, "long/short"])
        # A topic that is too long for a routing key is not shortened: it reaches no AMQP queue.
        self.assertEqual(self.bodies(channel, name, 1), ["2"])

    def test_key_that_is_no_topic(self):
        client = self.mqtt()
        client.subscribe("#")
        channel = self.channel(confirms=True)
        channel.queue_declare("q")
        channel.queue_bind("q", "amq.topic", "#")
        for key in ("a.+", "a.#", ""):
            self.publish(channel, key, key, "amq.topic")
        self.publish(channel, "fine", "fine", "amq.topic")
        self.assertEqual(client.next().payload, b"fine")
        self.assertEqual(self.bodies(channel, "q", 4), ["a.+", "a.#", "", "fine"])
