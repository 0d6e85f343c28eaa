"""Retained messages."""

from broker import Case


class Retaining(Case):
    def test_kept_replaced_cleared(self):
        """The last one stays with its properties; an empty one clears, and is delivered.

        [MQTT5-3.3.1-5], [MQTT5-3.3.1-6], [MQTT5-3.3.1-7], [MQTT5-3.3.1-8]
        """
        wire = self.subscribed("c", "a")
        publisher = self.connected("p")
        publisher.publish("a", "1", retain=True, content_type="one")
        publisher.publish("a", "2", retain=True, content_type="two", user=[("k", "v")])
        publisher.publish("a", "live")
        late = self.subscribed("late", "a")
        found = late.message()
        self.assertEqual((found.payload, found.properties), (b"2", dict(content_type="two", user=[("k", "v")])))
        publisher.publish("a", "", retain=True)
        self.assertEqual([m.payload for m in wire.messages(4)], [b"1", b"2", b"live", b""])
        self.assertSilent(self.subscribed("later", "a"))

    def test_wildcards(self):
        """B21, B23: the matching ones, all of them, and no others."""
        publisher = self.connected("p")
        for topic in ("a/1", "a/2", "a", "a/1/x", "b/1", "/a", "$a/1"):
            publisher.publish(topic, topic, retain=True)
        for name, topics in (
            ("a/+", ["a/1", "a/2"]),
            ("a/#", ["a", "a/1", "a/1/x", "a/2"]),
            ("+/1", ["a/1", "b/1"]),
            ("#", ["/a", "a", "a/1", "a/1/x", "a/2", "b/1"]),
            ("$a/#", ["$a/1"]),
            ("+", ["a"]),
        ):
            wire = self.subscribed("c", name)
            found = wire.messages(len(topics))
            self.assertEqual((sorted(m.topic for m in found), {m.retain for m in found}), (topics, {True}), name)
            self.assertSilent(wire)

    def test_over_a_kill(self):
        """What was set and what was cleared."""
        publisher = self.connected("p")
        publisher.publish("set", "x", retain=True)
        publisher.publish("cleared", "x", retain=True)
        publisher.publish("cleared", "", retain=True)
        self.broker.restart()
        wire = self.subscribed("c", "#")
        self.assertEqual(wire.message().topic, "set")
        self.assertSilent(wire)
