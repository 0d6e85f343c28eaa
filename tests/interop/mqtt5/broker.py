"""The broker under test, and what every test needs of it."""

import os
import queue
import shutil
import socket
import time
import unittest

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

from common.process import PATIENCE, Process, free_port
from wire import Wire, answer

FOREVER = 0xFFFFFFFF


class Target:
    """What the tests run against."""

    binary = None
    # Debian's Mosquitto instead, to see that the tests are right.
    mosquitto = False


class Broker(Process):
    """A broker with its ports."""

    def __init__(self):
        self.port, self.amqp_port = free_port(), free_port()
        super().__init__()


class Vowmq(Broker):
    """The real binary, perhaps with settings: `limits.retained=1`, and a configuration file."""

    def __init__(self, settings=(), configuration=""):
        self.settings, self.configuration = settings, configuration
        super().__init__()

    def change(self, configuration):
        """Another configuration, while it runs."""
        self.configuration = configuration
        self.reconfigure(configuration)

    def start(self):
        addresses = ("--mqtt", f"127.0.0.1:{self.port}", "--amqp", f"127.0.0.1:{self.amqp_port}")
        addresses += ("--config", self.configure(self.configuration))
        self.run_vowmq(Target.binary, *addresses, *(word for one in self.settings for word in ("--set", one)))


class Mosquitto(Broker):
    """Debian's, which forgets when it is killed: it is stopped instead."""

    def kill(self):
        self.stop()

    def start(self):
        path = os.path.join(self.directory, "mosquitto.conf")
        with open(path, "w") as file:
            file.write(f"listener {self.port} 127.0.0.1\nallow_anonymous true\nmax_topic_alias 10\nmax_packet_size 1048576\n")
            file.write(f"user root\npersistence true\npersistence_location {self.directory}/\n")
        self.run(shutil.which("mosquitto") or "/usr/sbin/mosquitto", "-c", path)
        until = time.monotonic() + PATIENCE
        while True:
            try:
                return socket.create_connection(("127.0.0.1", self.port)).close()
            except ConnectionRefusedError:
                assert time.monotonic() < until, self.said()
                time.sleep(0.01)


def vowmq_only(why):
    """A test that Mosquitto does not pass, and why."""
    return unittest.skipIf(Target.mosquitto, why)


def properties(packet, **given):
    """paho's properties: `properties(PacketTypes.PUBLISH, ContentType="text")`."""
    made = Properties(packet)
    for name, value in given.items():
        setattr(made, name, value)
    return made


class Paho:
    """A paho client of version 5 with what it was told."""

    def __init__(self, port, client="", clean=True, will=None, keep_alive=30, user=None, **connect):
        self.messages, self.connected, self.subscribed = queue.Queue(), queue.Queue(), queue.Queue()
        self.published, self.unsubscribed, self.disconnected = queue.Queue(), queue.Queue(), queue.Queue()
        self.client = paho.Client(CallbackAPIVersion.VERSION2, client, protocol=paho.MQTTv5)
        self.client.on_message = lambda _c, _d, message: self.messages.put(message)
        self.client.on_connect = lambda _c, _d, flags, reason, given: self.connected.put((flags, reason, given))
        self.client.on_subscribe = lambda _c, _d, _mid, reasons, _p: self.subscribed.put([r.value for r in reasons])
        self.client.on_unsubscribe = lambda _c, _d, _mid, reasons, _p: self.unsubscribed.put([r.value for r in reasons])
        self.client.on_publish = lambda _c, _d, _mid, reason, _p: self.published.put(reason.value)
        self.client.on_disconnect = lambda _c, _d, _flags, reason, _p: self.disconnected.put(reason.value)
        if user:
            self.client.username_pw_set(*user)
        if will:
            topic, payload, qos, retain, given = will
            self.client.will_set(topic, payload, qos, retain, properties(PacketTypes.WILLMESSAGE, **given))
        self.client.reconnect_delay_set(60, 60)
        self.client.connect(
            "127.0.0.1", port, keep_alive, clean_start=clean, properties=properties(PacketTypes.CONNECT, **connect)
        )
        self.client.loop_start()
        flags, reason, self.connack = self.connected.get(timeout=PATIENCE)
        assert not reason.is_failure, reason
        self.session_present = flags.session_present

    def subscribe(self, topic, qos=1, identifier=None, **options):
        given = properties(PacketTypes.SUBSCRIBE, **({"SubscriptionIdentifier": identifier} if identifier else {}))
        self.client.subscribe(topic, options=SubscribeOptions(qos, **options), properties=given)
        return self.subscribed.get(timeout=PATIENCE)

    def unsubscribe(self, topic):
        self.client.unsubscribe(topic)
        return self.unsubscribed.get(timeout=PATIENCE)

    def publish(self, topic, payload, qos=1, retain=False, **given):
        """Returns the reason code of the answer."""
        self.client.publish(topic, payload, qos, retain, properties(PacketTypes.PUBLISH, **given))
        return self.published.get(timeout=PATIENCE)

    def next(self):
        return self.messages.get(timeout=PATIENCE)

    def close(self, reason=0, **given):
        from paho.mqtt.reasoncodes import ReasonCode

        self.client.disconnect(ReasonCode(PacketTypes.DISCONNECT, identifier=reason), properties(PacketTypes.DISCONNECT, **given))
        self.client.loop_stop()

    def break_off(self):
        self.client.loop_stop()
        connection = self.client.socket()
        if connection:
            connection.close()


class Case(unittest.TestCase):
    """A test with a broker of its own, which has these settings, and this configuration."""

    settings = ()
    configuration = ""

    def setUp(self):
        self.broker = Mosquitto() if Target.mosquitto else Vowmq(self.settings, self.configuration)
        self.addCleanup(self.broker.close)

    def paho(self, *arguments, **options):
        client = Paho(self.broker.port, *arguments, **options)
        self.addCleanup(client.break_off)
        return client

    def wire(self):
        """A bare connection."""
        made = Wire(self.broker.port, PATIENCE)
        self.addCleanup(made.close)
        return made

    def connected(self, client="", **options):
        """A bare connection that has got its CONNACK, which is `connack`."""
        made = self.wire()
        made.connack = made.connect(client, **options)
        self.assertEqual(made.connack.reason, 0, made.connack)
        return made

    def subscribed(self, client, *filters, given=None, **options):
        made = self.connected(client, **options)
        made.subscribe(*filters, **(given or {}))
        return made

    def assertEnds(self, wire, *reasons):
        """DISCONNECT with one of the reasons, then the end; Mosquitto has other reasons, or none.

        [MQTT5-3.14.4-1], [MQTT5-3.14.4-2], [MQTT5-4.13.1-1], [MQTT5-4.13.2-1]
        """
        packet = wire.packet()
        if Target.mosquitto and (packet is None or packet.kind == "DISCONNECT"):
            return
        self.assertEqual(packet and packet.kind, "DISCONNECT", packet)
        self.assertIn(packet.reason, reasons, packet)
        self.assertIsNone(wire.packet(), "nothing comes after DISCONNECT")

    def assertRefused(self, wire, *reasons):
        """CONNACK with one of the reasons, then the end. [MQTT5-3.2.2-6], [MQTT5-3.2.2-7], [MQTT5-4.13.2-1]"""
        packet = wire.packet()
        self.assertEqual(packet and packet.kind, "CONNACK", packet)
        self.assertIn(packet.reason, reasons, packet)
        self.assertFalse(packet.session_present)
        self.assertIsNone(wire.packet(), "nothing comes after a refusal")

    def assertSilent(self, wire):
        """No message has come before the answer to a PINGREQ. A PUBREL is none: one goes on after a reconnect."""
        packet = wire.ping()
        while packet and packet.kind == "PUBREL":
            wire.send(answer("PUBCOMP", packet.id))
            packet = wire.packet()
        self.assertEqual(packet.kind, "PINGRESP", packet)

    def assertLives(self):
        """The broker still serves."""
        self.assertSilent(self.connected())
