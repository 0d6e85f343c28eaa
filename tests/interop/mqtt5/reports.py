"""Faults that users of other brokers reported, each by its number in the collection of public reports, and what is right.

The others are with their subject: B01, B03, B04, B09, B11, B13, B70, S02 to S04 in malformed; B06, B17, B32, S06 in
connecting; B21, B23 in retaining; B25, B74 in options; B27, B35 in taking_over; B29, B34 in wills; B38 in sessions; B40,
B41, B44, B85 in durability; B46, B50, B52, B54 in acknowledging; B48, B56, B60, B76 in flow; B58 in malformed; B62, B64 in
expiring; B65, B68 in sharing; B71 in aliases; S01 in properties.
"""

import wire as w
from broker import Case, vowmq_only


class PublicReports(Case):
    def test_b01_as_reported(self):
        """The bytes of the report: `home/#/temp` at QoS 1."""
        wire = self.wire()
        wire.send(bytes.fromhex("100f00044d515454050200 3c0000027431".replace(" ", "")))
        wire.expect("CONNACK")
        wire.send(w.subscribe(1, "home/#/temp"))
        found = wire.packet()
        self.assertTrue(found is None or found.kind == "DISCONNECT" or found.reasons == [0x8F], found)
        self.assertLives()

    def test_b15_topics_of_dollar(self):
        """`$foo/x` reaches `$foo/#`, never `#` or `+/x`; nobody dies. [MQTT5-4.7.2-1]"""
        wires = {name: self.subscribed(name, name) for name in ("$foo/#", "#", "+/x", "$foo/+", "$nix/#")}
        publisher = self.connected("p")
        publisher.publish("$foo/x", "1")
        publisher.publish("foo/x", "2")
        self.assertEqual([m.payload for m in (wires["$foo/#"].message(), wires["$foo/+"].message())], [b"1"] * 2)
        self.assertEqual([m.payload for m in (wires["#"].message(), wires["+/x"].message())], [b"2"] * 2)
        for wire in wires.values():
            self.assertSilent(wire)

    def test_b18_matching(self):
        """The table of filters and topics. [MQTT5-3.3.2-3], [MQTT5-4.7.3-4]"""
        topics = ["sport", "sport/", "sport/x", "sport/x/y", "/finance", "Sport", "/", "a//b", "é", "e\u0301"]
        table = {
            "sport/#": ["sport", "sport/", "sport/x", "sport/x/y"],
            "+/+": ["sport/", "sport/x", "/finance", "/"],
            "/+": ["/finance", "/"],
            "+": ["sport", "Sport", "é", "e\u0301"],
            "sport/+": ["sport/", "sport/x"],
            "a/+/b": ["a//b"],
            "é": ["é"],
            "#": topics,
        }
        publisher = self.connected("p")
        wires = {name: self.subscribed(name, name) for name in table}
        for topic in topics:
            publisher.publish(topic, "x")
        for name, expected in table.items():
            self.assertEqual([m.topic for m in wires[name].messages(len(expected))], expected, name)
            self.assertSilent(wires[name])

    @vowmq_only("closes without a word")
    def test_b58_as_reported(self):
        """The bytes of the report: a receive maximum of 0."""
        wire = self.wire()
        wire.send(bytes.fromhex("101200044d5154540502003c032100000002 7431".replace(" ", "")))
        self.assertRefused(wire, 0x82)

    @vowmq_only("takes the identifier")
    def test_b70_b71_as_reported(self):
        """The bytes of the reports: an identifier from a publisher, and aliases."""
        for packet, reasons in (
            ("3007000161020b0178", (0x82,)),
            ("30080001610323000078", (0x94,)),
            ("300700000323000578", (0x82, 0x94)),
        ):
            wire = self.connected("t1")
            wire.send(bytes.fromhex(packet))
            self.assertEnds(wire, *reasons)
        self.assertEqual(self.connected("t1").subscribe("a", subscription_identifier=268_435_455), [1])
