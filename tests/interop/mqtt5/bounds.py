"""What a broker of small bounds says no to."""

import time

import wire as w
from broker import Case, vowmq_only


@vowmq_only("is not set up so")
class Bounds(Case):
    settings = ("limits.retained=1", "limits.topic_aliases=0", "limits.client_id_bytes=23", "limits.topic_bytes=65535")

    def test_no_aliases(self):
        """Where CONNACK allows none, each is one too many: 0x94. [MQTT5-3.2.2-17], [MQTT5-3.2.2-18]"""
        for alias in (1, 64, 65535):
            wire = self.connected("c", alias_maximum=10)
            self.assertEqual(wire.connack.properties.get("alias_maximum", 0), 0)
            wire.send(w.publish("a", "x", alias=alias))
            self.assertEnds(wire, 0x94)

    def test_client_that_is_refused(self):
        """0x85, and the end: nothing behind it is handled. [MQTT5-3.1.3-8], [MQTT5-3.1.4-6], [MQTT5-3.2.2-7]"""
        watcher = self.subscribed("watcher", "a")
        wire = self.wire()
        wire.send(w.connect("c" * 24) + w.publish("a", "x", 1, 1))
        self.assertRefused(wire, 0x85)
        self.assertSilent(watcher)
        self.assertTrue(self.connected("c" * 23))

    def test_identifier_is_free_after_a_failure(self):
        """After a PUBREC of failure it names another message, with DUP or without. [MQTT5-4.3.3-9]"""
        watcher = self.subscribed("watcher", ("#", 2))
        wire = self.connected("c")
        self.assertEqual(wire.publish("only", "kept", 1, retain=True), 0)
        for number, dup in enumerate((False, True, False)):
            wire.send(w.publish("another", "x", 2, 9, retain=True))
            self.assertEqual(wire.expect("PUBREC", 9).reason, 0x97)
            wire.send(w.publish("a", f"{number}", 2, 9, dup=dup))
            self.assertEqual(wire.expect("PUBREC", 9).reason, 0)
            wire.send(w.answer("PUBREL", 9))
            self.assertEqual(wire.expect("PUBCOMP", 9).reason, 0)
        self.assertEqual([m.payload for m in watcher.messages(4)], [b"kept", b"0", b"1", b"2"])
        self.assertSilent(watcher)

    def test_longest_topic(self):
        """65,535 bytes pass whole, as a name and as a filter. [MQTT5-4.7.3-3]"""
        name = "t" * 65_535
        wire = self.subscribed("c", name)
        self.connected("p").publish(name, "x")
        self.assertTrue(wire.message().topic == name)

    def test_words_that_do_not_fit(self):
        """Every failure is told in a packet that the client takes, though no words or user properties fit into it.

        [MQTT5-3.4.2-2], [MQTT5-3.4.2-3], [MQTT5-3.5.2-2], [MQTT5-3.5.2-3], [MQTT5-3.6.2-2], [MQTT5-3.6.2-3],
        [MQTT5-3.7.2-2], [MQTT5-3.7.2-3], [MQTT5-3.9.2-1], [MQTT5-3.9.2-2], [MQTT5-3.11.2-1], [MQTT5-3.11.2-2],
        [MQTT5-3.14.2-3], [MQTT5-3.14.2-4]
        """
        most = self.connected("c").connack.size
        wire = self.connected("c", maximum_packet=most)
        wire.publish("only", "kept", 1, retain=True)
        for qos in (1, 2):
            self.assertEqual(wire.publish("another", "x", qos, retain=True), 0x97)
        wire.send(w.answer("PUBREC", 77), w.answer("PUBREL", 78))
        self.assertEqual([wire.expect("PUBREL", 77).reason, wire.expect("PUBCOMP", 78).reason], [0x92, 0x92])
        self.assertEqual(wire.subscribe("a#", "$share/g"), [0x8F, 0x8F])
        self.assertEqual(wire.unsubscribe("none"), [0x11])
        wire.send(w.publish("a", "x", alias=1))
        self.assertEnds(wire, 0x94)

    def test_refusal_that_does_not_fit(self):
        """CONNACK of failure without words; where no CONNACK at all fits, only the end.

        [MQTT5-3.1.2-24], [MQTT5-3.2.2-19], [MQTT5-3.2.2-20]
        """
        for most in (4, 5, 8, 30):
            with self.subTest(most):
                wire = self.wire()
                wire.most = most
                wire.send(w.connect("c", maximum_packet=most, authentication_method="NONE-SUCH"))
                if most < 5:
                    self.assertIsNone(wire.packet())
                else:
                    self.assertRefused(wire, 0x8C)

    def test_answer_that_does_not_fit(self):
        """An answer that is too large for the client whatever is left out is not sent. [MQTT5-3.1.2-24]"""
        most = self.connected("c").connack.size
        for request in (w.subscribe, w.unsubscribe):
            with self.subTest(request.__name__):
                wire = self.connected("c", maximum_packet=most)
                wire.send(request(1, *(f"{n}" for n in range(most))))
                time.sleep(0.2)
                packet = wire.ping()
                self.assertTrue(packet is None or packet.kind in ("DISCONNECT", "PINGRESP"), packet)
        with self.subTest("connect"):
            wire = self.wire()
            wire.most = most - 1
            wire.send(w.connect("c", maximum_packet=most - 1))
            packet = wire.packet()
            self.assertTrue(packet is None or packet.kind == "CONNACK", packet)
