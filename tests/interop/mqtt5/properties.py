"""What a publisher says of its message reaches every subscriber as it was."""

import os

from broker import Case

ALL = dict(payload_format=1, content_type="text/plain; ☃", response_topic="re/1", correlation_data=bytes(range(256)))
ALL |= dict(user=[("b", "2"), ("a", "1"), ("b", "2"), ("", ""), ("é", "☃" * 100)])


class Properties(Case):
    def test_all_of_publish(self):
        """At every QoS, live, stored for who is away, and retained: unaltered and in order.

        [MQTT5-3.3.2-4], [MQTT5-3.3.2-15], [MQTT5-3.3.2-16], [MQTT5-3.3.2-17], [MQTT5-3.3.2-18], [MQTT5-3.3.2-20],
        [MQTT5-3.8.4-8], [MQTT5-4.5.0-1]
        """
        live = self.subscribed("live", ("p/#", 2))
        self.subscribed("away", ("p/#", 2), clean=False, session_expiry=60).leave()
        publisher = self.connected("p")
        for qos in (0, 1, 2):
            publisher.publish(f"p/{qos}", f"{qos}", qos, retain=True, **ALL)
        late = self.subscribed("late", ("p/#", 2))
        away = self.connected("away", clean=False, session_expiry=60)
        for wire, count in ((live, 3), (late, 3), (away, 2)):
            found = wire.messages(count)
            self.assertEqual([m.properties for m in found], [ALL] * count)
            self.assertEqual([m.qos for m in found], list(range(3 - count, 3)))

    def test_all_of_publish_over_a_kill(self):
        """Stored and retained: the same after a restart."""
        self.subscribed("away", ("p", 2), clean=False, session_expiry=60).leave()
        self.connected("p").publish("p", "x", 2, retain=True, **ALL)
        self.broker.restart()
        away = self.connected("away", clean=False, session_expiry=60)
        self.assertTrue(away.connack.session_present)
        late = self.subscribed("late", "p")
        for wire in (away, late):
            self.assertEqual(wire.message().properties, ALL)

    def test_all_of_a_will(self):
        """The same for a will, which stands before user name and password. [MQTT5-3.1.3-1], [MQTT5-3.1.3-10]"""
        watcher = self.subscribed("watcher", "w")
        self.connected("c", will=("w", b"\0gone\xff", 1, False, ALL), user_name="u", password="p").close()
        found = watcher.message()
        self.assertEqual((found.payload, found.properties), (b"\0gone\xff", ALL))

    def test_values_at_their_bounds(self):
        """Empty and longest values; format 0 is not the same as none. [MQTT5-3.3.2-4], [MQTT5-3.3.2-18]"""
        wire = self.subscribed("c", "p")
        for given in (
            dict(payload_format=0),
            dict(content_type=""),
            dict(correlation_data=b""),
            dict(content_type="t" * 65535),
            dict(correlation_data=os.urandom(65535)),
            dict(response_topic="r" * 65535),
            dict(user=[("k" * 65535, "v" * 65535)]),
            dict(user=[(str(n), str(n)) for n in range(1000)]),
            {},
        ):
            wire.send(b"")
            publisher = self.connected("p")
            publisher.publish("p", "x", **given)
            self.assertEqual(wire.message().properties, given)

    def test_by_paho(self):
        """Request and response, as a client does it."""
        server, client = self.paho("server"), self.paho("client")
        server.subscribe("ask")
        client.subscribe("answer/client")
        client.publish("ask", "6*7", ResponseTopic="answer/client", CorrelationData=b"\0\1", UserProperty=("a", "b"))
        asked = server.next()
        self.assertEqual(asked.properties.UserProperty, [("a", "b")])
        server.publish(asked.properties.ResponseTopic, "42", CorrelationData=asked.properties.CorrelationData)
        got = client.next()
        self.assertEqual((got.payload, got.properties.CorrelationData), (b"42", b"\0\1"))

    def test_payload_is_not_text(self):
        """S01: any bytes pass, whatever the format indicator says, unless the broker refuses them with 0x99."""
        wire = self.subscribed("c", "p")
        body = bytes(range(256)) * 4
        self.assertEqual(self.connected("p").publish("p", body, payload_format=0), 0)
        self.assertEqual(wire.message().payload, body)
        if self.connected("p").publish("p", body, payload_format=1) != 0x99:
            self.assertEqual(wire.message().payload, body)
