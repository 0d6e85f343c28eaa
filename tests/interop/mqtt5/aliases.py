"""Topic aliases, both ways."""

import wire as w
from broker import Case


class Aliases(Case):
    def aliasing(self, client="c", **options):
        wire = self.connected(client, **options)
        wire.aliases = wire.connack.properties.get("alias_maximum", 0)
        if not wire.aliases:
            self.skipTest("the broker takes no aliases")
        return wire

    def test_of_the_client(self):
        """Every alias up to the broker's maximum; set anew; topics are whole again towards subscribers. [MQTT5-3.3.2-12]"""
        watcher = self.subscribed("watcher", ("t/#", 2))
        wire = self.aliasing()
        for alias in range(1, wire.aliases + 1):
            wire.publish(f"t/{alias}", "first", 1, alias=alias)
        for alias in range(1, wire.aliases + 1):
            wire.publish("", "second", alias % 3, alias=alias)
        count = wire.aliases * 2
        found = watcher.messages(count)
        names = [f"t/{alias}" for alias in range(1, wire.aliases + 1)]
        self.assertEqual([m.topic for m in found if m.payload == b"first"], names)
        self.assertEqual(sorted(m.topic for m in found if m.payload == b"second"), sorted(names))
        self.assertEqual({m.properties.get("alias") for m in found}, {None})
        wire.publish("t/other", "third", 1, alias=1)
        wire.publish("", "fourth", 1, alias=1)
        self.assertEqual([m.topic for m in watcher.messages(2)], ["t/other"] * 2)

    def test_ends_with_its_connection(self):
        """A resumed session has none of them. [MQTT5-3.3.2-7]"""
        wire = self.aliasing(clean=False, session_expiry=60)
        wire.publish("t", "x", 1, alias=1)
        wire.close()
        wire = self.connected("c", clean=False, session_expiry=60)
        self.assertTrue(wire.connack.session_present)
        wire.send(w.publish("", "x", 1, 5, alias=1))
        self.assertEnds(wire, 0x82, 0x94)

    def test_errors(self):
        """B71: alias 0 and one above the maximum: 0x94; an empty topic with an unknown alias: 0x82.

        [MQTT5-3.2.2-17], [MQTT5-3.3.2-8], [MQTT5-3.3.2-9]
        """
        maximum = self.connected("c").connack.properties.get("alias_maximum", 0)
        cases = [
            (bytes.fromhex("30080001610323000078"), (0x94,)),
            (w.publish("a", "x", alias=maximum + 1), (0x94,)),
            (w.publish("a", "x", alias=65535), (0x94,)),
        ]
        cases += [(bytes.fromhex("300700000323000578"), (0x82,))] if maximum >= 5 else []
        for packet, reasons in cases:
            with self.subTest(packet.hex()):
                wire = self.connected("c")
                wire.send(packet)
                self.assertEnds(wire, *reasons)
        self.assertLives()

    def test_twice_in_one_packet(self):
        """A property that may be there once."""
        wire = self.connected("c")
        wire.send(w.publish("a", "x", alias=[1, 1]))
        self.assertEnds(wire, 0x82, 0x81)

    def test_of_the_broker(self):
        """None to a client that takes none; to others never above their maximum, and the topic can be told.

        [MQTT5-3.1.2-26], [MQTT5-3.1.2-27], [MQTT5-3.3.2-11]
        """
        none = self.subscribed("none", "t/#")
        some = self.subscribed("some", "t/#", alias_maximum=2)
        publisher = self.connected("p")
        names = [f"t/{n % 4}" for n in range(20)]
        for name in names:
            publisher.publish(name, name)
        found = none.messages(20)
        self.assertEqual([m.topic for m in found], names)
        self.assertEqual({m.properties.get("alias") for m in found}, {None})
        known = {}
        for name in names:
            message = some.message()
            alias = message.properties.get("alias")
            if alias is not None:
                self.assertIn(alias, (1, 2))
                if message.topic:
                    known[alias] = message.topic
            self.assertEqual(message.topic or known[alias], name)

    def test_sent_again_on_another_connection(self):
        """What was sent with an alias is sent again with its topic. [MQTT5-3.3.2-7]"""
        wire = self.subscribed("c", "t", clean=False, session_expiry=60, alias_maximum=5)
        publisher = self.connected("p")
        publisher.publish("t", "1")
        publisher.publish("t", "2")
        first = [wire.expect("PUBLISH") for _ in range(2)]
        wire.close()
        wire = self.connected("c", clean=False, session_expiry=60)
        again = wire.messages(2)
        self.assertEqual([(m.id, m.topic, m.dup) for m in again], [(m.id, "t", True) for m in first])
