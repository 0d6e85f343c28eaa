"""How long a session is kept."""

import time

from broker import FOREVER, Case, vowmq_only


class Sessions(Case):
    def begin(self, client="s", **connect):
        wire = self.subscribed(client, "a", clean=False, **connect)
        self.assertFalse(wire.connack.session_present)
        return wire

    def present(self, client="s", **connect):
        wire = self.connected(client, clean=False, **connect)
        self.addCleanup(wire.close)
        return wire.connack.session_present

    def test_none(self):
        """Absent and 0: the session ends with the connection."""
        for connect in ({}, {"session_expiry": 0}):
            self.begin(**connect).leave()
            self.assertFalse(self.present())

    def test_finite(self):
        """Resumed within, gone behind; messages of the time between arrive. It counts from the connection's end on.

        [MQTT5-3.1.2-5], [MQTT5-3.1.2-6], [MQTT5-3.1.2-23], [MQTT5-3.2.2-3], [MQTT5-4.1.0-1], [MQTT5-4.1.0-2]
        """
        self.begin(session_expiry=2).leave()
        self.connected("p").publish("a", "kept")
        wire = self.connected("s", clean=False, session_expiry=2)
        self.assertTrue(wire.connack.session_present)
        self.assertEqual(wire.message().payload, b"kept")
        wire.leave()
        open = self.begin("open", session_expiry=1)
        time.sleep(3.5)
        self.assertFalse(self.present())
        self.connected("p").publish("a", "live")
        self.assertEqual(open.message().payload, b"live")
        open.close()
        self.assertTrue(self.present("open", session_expiry=1))

    def test_finite_after_a_broken_connection(self):
        """Breaking off is as leaving."""
        self.begin(session_expiry=60).close()
        self.assertTrue(self.present(session_expiry=1))

    def test_forever(self):
        """B38: 0xFFFFFFFF never ends, and 0xFFFFFFFE is a number like others."""
        for expiry in (FOREVER, FOREVER - 1):
            self.begin(f"s{expiry}", session_expiry=expiry).leave()
        time.sleep(1.2)
        for expiry in (FOREVER, FOREVER - 1):
            self.assertTrue(self.present(f"s{expiry}"))

    def test_clean_start(self):
        """What was there is gone, subscriptions and messages, and a new session is kept as long as it says.

        [MQTT5-3.1.2-4], [MQTT5-3.1.4-4], [MQTT5-3.2.2-2]
        """
        self.begin(session_expiry=60).leave()
        publisher = self.connected("p")
        publisher.publish("a", "lost")
        wire = self.connected("s", clean=True, session_expiry=60)
        self.assertFalse(wire.connack.session_present)
        publisher.publish("a", "to nobody")
        self.assertSilent(wire)
        wire.leave()
        self.assertTrue(self.present())

    def test_changed_by_disconnect(self):
        """To 0, to more, and left as it was."""
        self.begin(session_expiry=60).leave(0, session_expiry=0)
        self.assertFalse(self.present())
        self.begin(session_expiry=1).leave(0, session_expiry=60)
        time.sleep(2.2)
        self.assertTrue(self.present(session_expiry=60))

    def test_by_paho(self):
        """The same with a client: changed by its DISCONNECT."""
        client = self.paho("s", clean=False, SessionExpiryInterval=60)
        client.subscribe("a")
        client.close(SessionExpiryInterval=1)
        time.sleep(2.5)
        again = self.paho("s", clean=False, SessionExpiryInterval=60)
        self.assertFalse(again.session_present)

    def test_new_interval_with_each_connect(self):
        """A resume with 0 ends the session with that connection."""
        self.begin(session_expiry=60).leave()
        self.assertTrue(self.present(session_expiry=0) and not time.sleep(0.1))
        self.connected("s", clean=False, session_expiry=0).leave()
        self.assertFalse(self.present())

    @vowmq_only("begins anew after a restart")
    def test_kept_over_a_kill(self):
        """B38: runs on by the wall clock while the broker is down. [MQTT5-3.1.2-23], [MQTT5-3.1.3-2], [MQTT5-4.1.0-2]"""
        self.begin("short", session_expiry=2).leave()
        self.begin("long", session_expiry=60).leave()
        self.begin("ever", session_expiry=FOREVER).close()
        self.begin("none", session_expiry=0)
        self.broker.kill()
        time.sleep(3.2)
        self.broker.start()
        self.assertFalse(self.present("short"))
        self.assertTrue(self.present("long"))
        self.assertTrue(self.present("ever"))
        self.assertFalse(self.present("none"))

    def test_change_by_disconnect_is_kept_over_a_kill(self):
        """What DISCONNECT said is what a restart finds."""
        self.begin("ended", session_expiry=60).leave(0, session_expiry=0)
        self.begin("longer", session_expiry=1).leave(0, session_expiry=60)
        self.broker.kill()
        time.sleep(2.2)
        self.broker.start()
        self.assertFalse(self.present("ended"))
        self.assertTrue(self.present("longer"))
