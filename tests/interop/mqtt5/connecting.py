"""CONNECT and CONNACK: what is asked for, and what the broker says of itself."""

import time

import wire as w
from broker import Case, vowmq_only


class Connecting(Case):
    def test_what_connack_says(self):
        """Every property of CONNACK is allowed there, and nothing that we do is denied. [MQTT5-4.12.0-6]"""
        connack = self.connected("c").connack
        for name in ("retain_available", "wildcard_available", "identifiers_available", "shared_available"):
            self.assertEqual(connack.properties.get(name, 1), 1, name)
        self.assertNotIn("maximum_qos", connack.properties)
        self.assertNotIn("assigned_client", connack.properties)
        self.assertNotIn("response_information", connack.properties)
        self.assertNotIn("authentication_method", connack.properties)
        self.assertGreater(connack.properties.get("receive_maximum", 65535), 0)

    def test_assigned_client(self):
        """An empty identifier gets one that names the session; two get different ones.

        [MQTT5-3.1.3-6], [MQTT5-3.1.3-7], [MQTT5-3.2.2-16]
        """
        for clean in (True, False):
            wire = self.connected("", clean=clean, session_expiry=60)
            assigned = wire.connack.properties["assigned_client"]
            other = self.connected("", clean=clean).connack.properties["assigned_client"]
            self.assertNotEqual(assigned, other)
            wire.subscribe("a")
            wire.leave()
            again = self.connected(assigned, clean=False, session_expiry=60)
            self.assertTrue(again.connack.session_present)
            self.assertNotIn("assigned_client", again.connack.properties)

    def test_clients_of_every_length(self):
        """1 to 23 letters and digits, and longer ones with other characters too. [MQTT5-3.1.3-5]"""
        for name in ("a", "0123456789abcdefghijklm", "nopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVW", "XYZ", "é/+#$ ☃" * 20):
            self.assertTrue(self.connected(name))

    def test_response_information(self):
        """Is sent only to who asks for it. [MQTT5-3.1.2-28]"""
        for asked in ({}, {"request_response": 0}):
            self.assertNotIn("response_information", self.connected("c", **asked).connack.properties)
        self.connected("c", request_response=1)

    def test_password_without_user(self):
        """B04: 3.1.1 forbids it, 5 allows it: no protocol error."""
        wire = self.wire()
        wire.send(w.connect("c", password="secret"))
        self.assertIn(wire.expect("CONNACK").reason, (0, 0x86, 0x87))

    def test_all_properties_of_connect(self):
        """Each may be there, user properties again and again."""
        given = dict(will_delay=1, payload_format=1, message_expiry=9, content_type="t", response_topic="r")
        given |= dict(correlation_data=b"\0\xff", user=[("k", "v"), ("k", "v")])
        asked = dict(session_expiry=10, receive_maximum=5, maximum_packet=1000, alias_maximum=3, request_response=1)
        asked |= dict(request_problem=0, user=[("a", "1"), ("a", "2"), ("", "")])
        self.connected("c", will=("w", "gone", 2, True, given), **asked)

    def test_keep_alive(self):
        """Silence of one and a half keep-alives: 0x8D, and the will. [MQTT5-3.1.2-22], [MQTT5-3.2.2-22]"""
        watcher = self.subscribed("watcher", "w")
        begun = time.monotonic()
        wire = self.connected("c", keep_alive=1, will=("w", "gone", 1, False, {}))
        self.assertEqual(wire.connack.properties.get("server_keep_alive", 1), 1)
        self.assertEnds(wire, 0x8D)
        self.assertGreater(time.monotonic() - begun, 1.3)
        self.assertLess(time.monotonic() - begun, 6)
        self.assertEqual(watcher.message().payload, b"gone")

    def test_keep_alive_is_kept_by_any_packet(self):
        """A client that speaks stays; one that asked for 0 may be silent, unless the broker names a time."""
        wire = self.connected("c", keep_alive=1)
        silent = self.connected("silent", keep_alive=0)
        for _ in range(6):
            time.sleep(0.5)
            wire.publish("a", qos=1)
        self.assertSilent(silent)

    def test_nothing_before_connect(self):
        """B06: another packet first is not answered. [MQTT5-3.1.0-1], [MQTT5-3.14.0-1]"""
        for packet in (
            w.frame("PINGREQ", b""),
            w.publish("a", "x"),
            w.subscribe(1, "a"),
            w.disconnect(),
            w.auth(0x18, authentication_method="m"),
        ):
            wire = self.wire()
            wire.send(packet)
            self.assertIsNone(wire.packet())
        self.assertLives()

    @vowmq_only("publishes no will then")
    def test_second_connect(self):
        """B17: a protocol error, and the will is published. [MQTT5-3.1.0-2], [MQTT5-3.1.2-8]"""
        watcher = self.subscribed("watcher", "w")
        wire = self.connected("c", will=("w", "gone", 1, False, {}))
        wire.send(w.connect("c"))
        self.assertEnds(wire, 0x82)
        self.assertEqual(watcher.message().payload, b"gone")

    def test_other_versions(self):
        """Version 6 and 2 are told which are spoken; another protocol is not served. [MQTT5-3.1.2-1], [MQTT5-3.1.2-2]"""
        for version in (2, 6, 127):
            wire = self.wire()
            wire.send(w.frame("CONNECT", w.text("MQTT") + bytes([version, 2, 0, 60, 0]) + w.text("c")))
            packet = wire.packet()
            if packet:
                self.assertIn((packet.kind, packet.reason), (("CONNACK", 0x84), ("CONNACK", 1)))
                self.assertIsNone(wire.packet())
        for name in ("mqtt", "MQTX", "MQIsdp"):
            wire = self.wire()
            wire.send(w.frame("CONNECT", w.text(name) + bytes([5, 2, 0, 60, 0]) + w.text("c")))
            packet = wire.packet()
            self.assertTrue(packet is None or packet.reason in (1, 0x84, 0x81, 0x82), packet)
        self.assertLives()

    def test_authentication_that_is_not_known(self):
        """0x8C or 0x87, no word of the session that is there, and nothing behind it is handled.

        [MQTT5-3.1.4-2], [MQTT5-3.1.4-6], [MQTT5-3.2.2-6], [MQTT5-3.2.2-7], [MQTT5-4.12.0-1], [MQTT5-4.12.0-4]
        """
        watcher = self.subscribed("watcher", "a")
        self.subscribed("c", "a", clean=False, session_expiry=60).leave()
        wire = self.wire()
        given = dict(clean=False, authentication_method="NONE-SUCH", authentication_data=b"x")
        wire.send(w.connect("c", **given) + w.publish("a", "x", 1, 1))
        self.assertRefused(wire, 0x8C, 0x87)
        self.assertSilent(watcher)
        self.assertTrue(self.connected("c", clean=False).connack.session_present)

    def test_auth_of_a_client_without_a_method(self):
        """A protocol error. [MQTT5-4.12.0-7]"""
        wire = self.connected("c")
        wire.send(w.auth(0x19, authentication_method="SCRAM-SHA-256"))
        self.assertEnds(wire, 0x82)

    def test_one_byte_at_a_time(self):
        """S06: packets may come in any pieces. [MQTT5-4.2-1]"""
        wire = self.wire()
        for byte in w.connect("c", user=[("a", "b")]) + w.subscribe(1, "a") + w.publish("a", "x", 1, 2, content_type="t"):
            wire.send(bytes([byte]))
            time.sleep(0.01)
        wire.expect("CONNACK")
        wire.expect("SUBACK")
        self.assertEqual({wire.packet().kind, wire.packet().kind}, {"PUBLISH", "PUBACK"})

    def test_publish_disconnect_and_end_at_once(self):
        """B32: what was received counts; the will does not."""
        watcher = self.subscribed("watcher", "#")
        wire = self.wire()
        wire.send(w.connect("c", will=("w", "gone", 1, False, {})), w.publish("a", "said"), w.disconnect())
        wire.close()
        self.assertEqual(watcher.message().payload, b"said")
        self.assertSilent(watcher)

    @vowmq_only("closes without a word")
    def test_shutdown(self):
        """0x8B when the broker stops."""
        wire = self.connected("c")
        client = self.paho("paho")
        self.assertEqual(self.broker.stop(), 0)
        self.assertEnds(wire, 0x8B)
        self.assertEqual(client.disconnected.get(timeout=10), 0x8B)
