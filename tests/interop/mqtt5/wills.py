"""Wills: their delay, the end of the session, and what DISCONNECT says of them."""

import time

from broker import FOREVER, Case, vowmq_only


class Wills(Case):
    def setUp(self):
        super().setUp()
        self.watcher = self.subscribed("watcher", "w/#", clean=False, session_expiry=60)

    def device(self, client="d", delay=None, expiry=0, retain=False, **options):
        given = {} if delay is None else dict(will_delay=delay)
        return self.connected(client, session_expiry=expiry, will=(f"w/{client}", client, 1, retain, given), **options)

    def assertComes(self, client, after, before):
        begun = time.monotonic()
        self.assertEqual(self.watcher.message().topic, f"w/{client}")
        took = time.monotonic() - begun
        self.assertTrue(after - 0.3 <= took <= before, f"{took} s")

    def test_none_and_zero(self):
        """At once."""
        for delay in (None, 0):
            self.device(delay=delay, expiry=60).close()
            self.assertComes("d", 0, 1)

    def test_delay(self):
        """After it. [MQTT5-3.1.2-7], [MQTT5-3.1.2-8]"""
        self.device(delay=2, expiry=60).close()
        self.assertComes("d", 2, 4)

    @vowmq_only("waits for the delay")
    def test_end_of_the_session(self):
        """B29: whichever is first: at once with an expiry of 0, at 1 with an expiry of 1. [MQTT5-3.1.2-8]"""
        self.device("zero", delay=30, expiry=0).close()
        self.assertComes("zero", 0, 1)
        self.device("one", delay=30, expiry=1).close()
        self.assertComes("one", 1, 3.5)

    def test_resume_within(self):
        """Not at all, not even later. [MQTT5-3.1.3-9]"""
        self.device(delay=1, expiry=60).close()
        back = self.connected("d", clean=False, session_expiry=60)
        time.sleep(2.2)
        self.assertSilent(self.watcher)
        back.leave()
        self.assertSilent(self.watcher)

    @vowmq_only("does not publish it")
    def test_clean_start_within(self):
        """Ends the session, so the will is published."""
        self.device(delay=30, expiry=60).close()
        self.connected("d", clean=True)
        self.assertComes("d", 0, 1)

    def test_disconnect(self):
        """0 voids it, 4 does not. [MQTT5-3.14.4-3]"""
        self.device("normal").leave()
        self.device("with", expiry=60).leave(4)
        self.assertComes("with", 0, 1)
        self.assertSilent(self.watcher)

    @vowmq_only("publishes a will after 4 only")
    def test_disconnect_with_an_error(self):
        """Any other reason than 0 leaves the will to be published. [MQTT5-4.13.2-1]"""
        for reason in (0x80, 0x81, 0x82, 0x83, 0x90, 0x93, 0x95, 0x97, 0x99):
            self.device("error").leave(reason)
            self.assertComes("error", 0, 1)

    @vowmq_only("waits for the delay")
    def test_disconnect_with_another_expiry(self):
        """4 with an expiry of 0 ends the session: at once, delay or not."""
        self.device(delay=30, expiry=60).leave(4, session_expiry=0)
        self.assertComes("d", 0, 1)

    def test_new_will_with_each_connection(self):
        """A new CONNECT replaces it, one without a will takes it away."""
        self.device(delay=1, expiry=60).close()
        again = self.connected("d", clean=False, session_expiry=60, will=("w/new", "new", 1, False, {}))
        again.close()
        self.assertComes("new", 0, 1)
        self.connected("d", clean=False, session_expiry=60).close()
        time.sleep(1.5)
        self.assertSilent(self.watcher)

    def test_retained_and_late(self):
        """B34: a delayed will is retained if it says so, and one that does not say so is not.

        [MQTT5-3.1.2-14], [MQTT5-3.1.2-15]
        """
        self.device(delay=1, expiry=60, retain=True).close()
        self.assertComes("d", 1, 3)
        found = self.subscribed("late", "w/d").message()
        self.assertEqual((found.payload, found.retain), (b"d", True))
        self.device("not", retain=False).close()
        self.assertComes("not", 0, 1)
        self.assertSilent(self.subscribed("late", "w/not"))

    def test_once(self):
        """One that was published or voided is gone from its session: a kill brings nothing back.

        [MQTT5-3.1.2-10]
        """
        self.device("published", expiry=60).close()
        self.assertComes("published", 0, 1)
        self.device("voided", expiry=60).leave(0)
        time.sleep(0.2)  # nobody is told when the end of a connection is on disk
        self.broker.restart()
        self.watcher = self.connected("watcher", clean=False, session_expiry=60)
        time.sleep(0.3)
        self.assertSilent(self.watcher)

    def test_expiry_begins_with_publication(self):
        """The delay does not count for the message's expiry."""
        given = dict(will_delay=2, message_expiry=10)
        self.connected("d", session_expiry=60, will=("w/d", "d", 1, False, given)).close()
        found = self.watcher.message()
        self.assertIn(found.properties.get("message_expiry"), (9, 10))
        self.assertNotIn("will_delay", found.properties)

    def test_delay_over_a_kill(self):
        """A will that waits when the broker dies is published when its time has come, once.

        [MQTT5-3.1.2-7], [MQTT5-3.1.2-8]
        """
        self.device("waits", delay=2, expiry=60).close()
        self.device("online", delay=1, expiry=FOREVER)
        self.device("soon", delay=0, expiry=FOREVER)
        self.broker.kill()
        self.broker.start()
        self.watcher = self.connected("watcher", clean=False, session_expiry=60)
        found = sorted(m.topic for m in self.watcher.messages(3))
        self.assertEqual(found, ["w/online", "w/soon", "w/waits"])
        time.sleep(0.5)
        self.assertSilent(self.watcher)

    def test_by_paho(self):
        """The will of a client that breaks off."""
        self.paho("p", will=("w/p", "gone", 1, False, dict(WillDelayInterval=1)), SessionExpiryInterval=60).break_off()
        self.assertComes("p", 1, 3)
