"""The same client twice."""

import time

from broker import Case, vowmq_only


class TakingOver(Case):
    def test_first_is_told(self):
        """B35: 0x8E, then the end. [MQTT5-3.1.4-3]"""
        first = self.connected("c", session_expiry=60)
        second = self.connected("c", clean=False, session_expiry=60)
        self.assertTrue(second.connack.session_present)
        self.assertEnds(first, 0x8E)
        self.assertSilent(second)

    @vowmq_only("closes without a word")
    def test_paho_is_told(self):
        """What a client makes of it."""
        first = self.paho("c", SessionExpiryInterval=60)
        self.paho("c", clean=False, SessionExpiryInterval=60)
        self.assertEqual(first.disconnected.get(timeout=10), 0x8E)

    def test_by_3_1_1_and_of_3_1_1(self):
        """A client of the older version takes over and is taken over: it is not told, and its session is the same."""
        five = self.subscribed("c", "a", clean=False, session_expiry=60)
        four = self.connected("c", clean=False, version=4)
        self.assertTrue(four.connack.session_present)
        self.assertEnds(five, 0x8E)
        self.connected("p").publish("a", "to the second")
        self.assertEqual(four.message().payload, b"to the second")
        again = self.connected("c", clean=False, session_expiry=60)
        self.assertTrue(again.connack.session_present)
        self.assertIsNone(four.packet(), "3.1.1 knows no DISCONNECT of the server")

    @vowmq_only("waits for the delay")
    def test_session_that_ends(self):
        """B27: with an expiry of 0 the old session ends and its will is published, once. [MQTT5-3.1.2-8]"""
        watcher = self.subscribed("watcher", "w")
        first = self.connected("c", will=("w", "first", 1, False, dict(will_delay=30)))
        self.connected("c", clean=True)
        self.assertEnds(first, 0x8E)
        self.assertEqual(watcher.message().payload, b"first")
        self.assertSilent(watcher)

    @vowmq_only("publishes neither")
    def test_session_that_goes_on(self):
        """A takeover within the will delay voids the will; without a delay it is published."""
        watcher = self.subscribed("watcher", "w/#")
        for client, given in (("late", dict(will_delay=1)), ("now", {})):
            options = dict(session_expiry=60, will=(f"w/{client}", client, 1, False, given))
            self.connected(client, **options)
            self.connected(client, clean=False, session_expiry=60)
        self.assertEqual(watcher.message().payload, b"now")
        time.sleep(1.5)
        self.assertSilent(watcher)

    def test_unacknowledged_goes_to_the_second(self):
        """Under its identifier, with DUP."""
        first = self.subscribed("c", "a", session_expiry=60)
        self.connected("p").publish("a", "x")
        sent = first.expect("PUBLISH")
        second = self.connected("c", clean=False, session_expiry=60)
        again = second.message()
        self.assertEqual((again.id, again.payload, again.dup), (sent.id, b"x", True))
