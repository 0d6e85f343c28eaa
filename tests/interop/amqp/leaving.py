"""What leaves a queue unread: dead letters, expiry, bounds, delivery limits. With pika."""

import time

import pika

from broker import Case, vowmq_only


class Leaving(Case):
    def with_dead_letters(self, channel, queue, **arguments):
        """A queue whose dead letters go to the queue `dead`, under the key `dead`."""
        channel.queue_declare("dead", durable=True)
        dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
        channel.queue_declare(queue, durable=True, arguments=dead | arguments)

    def test_dead_letter_after_its_time(self):
        channel = self.channel(confirms=True)
        self.with_dead_letters(channel, "work", **{"x-message-ttl": 300})
        self.publish(channel, "work", "late", delivery_mode=2, headers={"mine": 1}, correlation_id="c")
        began = time.monotonic()
        method, properties, body = self.take(channel, "dead", 1)[0]
        self.assertGreater(time.monotonic() - began, 0.2)
        self.assertEqual((method.exchange, method.routing_key, body), ("", "dead", b"late"))
        headers = properties.headers
        (death,) = headers.pop("x-death")
        self.assertLess(abs(time.time() - time.mktime(death.pop("time").timetuple()) + time.timezone), 5)
        self.assertEqual(
            death, {"count": 1, "reason": "expired", "queue": "work", "exchange": "", "routing-keys": ["work"]}
        )
        first = {f"x-first-death-{what}": value for what, value in (("exchange", ""), ("queue", "work"), ("reason", "expired"))}
        self.assertEqual(headers, {"mine": 1} | first)
        self.assertEqual((properties.correlation_id, properties.delivery_mode), ("c", 2))

    def test_dead_letter_after_rejection(self):
        channel = self.channel(confirms=True)
        channel.exchange_declare("dlx", "fanout")
        channel.queue_declare("dead")
        channel.queue_bind("dead", "dlx")
        channel.queue_declare("work", arguments={"x-dead-letter-exchange": "dlx"})
        channel.queue_bind("work", "amq.direct", "key")
        for number in range(3):
            self.publish(channel, "key", str(number), "amq.direct")
        self.take(channel, "work", 3, ack=False)
        channel.basic_reject(1, requeue=False)
        channel.basic_nack(3, multiple=True, requeue=False)
        came = self.take(channel, "dead", 3)
        self.assertEqual([body for _, _, body in came], [b"0", b"1", b"2"])
        for method, properties, _ in came:
            self.assertEqual((method.exchange, method.routing_key), ("dlx", "key"))
            (death,) = properties.headers["x-death"]
            self.assertEqual((death["reason"], death["exchange"], death["routing-keys"]), ("rejected", "amq.direct", ["key"]))

    def test_expiration_of_a_message(self):
        channel = self.channel(confirms=True)
        self.with_dead_letters(channel, "work")
        self.publish(channel, "work", "short", expiration="200", delivery_mode=2)
        self.publish(channel, "work", "long", expiration="60000", delivery_mode=2)
        _, properties, body = self.take(channel, "dead", 1)[0]
        self.assertEqual((body, properties.expiration), (b"short", None))
        self.assertEqual(properties.headers["x-death"][0]["original-expiration"], "200")
        _, properties, body = self.take(channel, "work", 1)[0]
        self.assertEqual((body, properties.expiration), (b"long", "60000"))

    def test_the_shorter_time_counts(self):
        channel = self.channel(confirms=True)
        self.with_dead_letters(channel, "work", **{"x-message-ttl": 200})
        self.publish(channel, "work", "queue's", expiration="60000")
        self.publish(channel, "work", "its own", expiration="50")
        self.assertEqual(self.bodies(channel, "dead", 2), ["queue's", "its own"])

    def test_what_is_out_does_not_expire(self):
        channel = self.channel(confirms=True)
        self.with_dead_letters(channel, "work", **{"x-message-ttl": 200})
        self.publish(channel, "work", "held")
        self.take(channel, "work", 1, ack=False)
        self.quiet(channel, 0.5)
        self.assertEmpty(channel, "dead")
        channel.basic_nack(1, requeue=True)
        self.assertEqual(self.bodies(channel, "dead", 1), ["held"])

    def test_no_time_at_all(self):
        channel, other = self.channel(confirms=True), self.channel()
        self.with_dead_letters(channel, "work", **{"x-message-ttl": 0})
        self.publish(channel, "work", "nobody there")
        self.assertEqual(self.bodies(channel, "dead", 1), ["nobody there"])
        got, _ = self.consume(other, "work")
        self.publish(channel, "work", "somebody there")
        self.pump(other, lambda: got)
        other.basic_nack(1, requeue=True)
        came = self.take(channel, "dead", 1)
        self.assertEqual(came[0][2], b"somebody there")

    def test_wrong_expiration(self):
        for expiration in ("-1", "abc", "", "1.5", "+7", " 5"):
            channel = self.channel()
            channel.queue_declare("q")
            with self.subTest(expiration=expiration):
                self.refused(406, "expiration", channel, lambda: self.publish(channel, "q", expiration=expiration))

    def test_retry_circle_goes_on(self):
        channel = self.channel(confirms=True)
        retry = {"x-message-ttl": 50, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "main"}
        channel.queue_declare("main", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "retry"})
        channel.queue_declare("retry", arguments=retry)
        self.publish(channel, "main", "again")
        for round in range(3):
            method, properties, _ = self.take(channel, "main", 1, ack=False)[0]
            deaths = [(d["queue"], d["reason"], d["count"]) for d in (properties.headers or {}).get("x-death", [])]
            self.assertEqual(deaths, [("retry", "expired", round), ("main", "rejected", round)] if round else [])
            channel.basic_nack(method.delivery_tag, requeue=False)
        self.take(channel, "main", 1)

    def test_circle_of_expiry_alone_ends(self):
        channel = self.channel(confirms=True)
        for queue, to in (("a", "b"), ("b", "a")):
            to = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": to}
            channel.queue_declare(queue, arguments={"x-message-ttl": 50} | to)
        self.publish(channel, "a")
        self.quiet(channel, 0.4)
        self.assertEqual((self.count(channel, "a"), self.count(channel, "b")), (0, 0))

    def test_deaths_are_counted_by_queue_and_reason(self):
        channel = self.channel(confirms=True)
        self.with_dead_letters(channel, "work")
        self.publish(channel, "work", headers={"CC": ["copy"]})
        for _ in range(2):
            method, _, _ = self.take(channel, "work", 1, ack=False)[0]
            channel.basic_reject(method.delivery_tag, requeue=False)
            _, properties, body = self.take(channel, "dead", 1)[0]
            self.assertNotIn("CC", properties.headers)
            channel.basic_publish("", "work", body, properties)
        method, properties, _ = self.take(channel, "work", 1)[0]
        (death,) = properties.headers["x-death"]
        self.assertEqual((death["count"], death["routing-keys"]), (2, ["work", "copy"]))

    def test_bound_drops_the_oldest(self):
        channel = self.channel(confirms=True)
        self.with_dead_letters(channel, "work", **{"x-max-length": 3})
        for number in range(5):
            self.publish(channel, "work", str(number))
        self.assertEqual(self.bodies(channel, "work", 3), ["2", "3", "4"])
        came = self.take(channel, "dead", 2)
        self.assertEqual([body for _, _, body in came], [b"0", b"1"])
        self.assertEqual(came[0][1].headers["x-death"][0]["reason"], "maxlen")

    def test_bound_counts_what_is_ready(self):
        channel = self.channel(confirms=True)
        channel.queue_declare("work", arguments={"x-max-length": 3})
        for number in range(3):
            self.publish(channel, "work", str(number))
        self.take(channel, "work", 2, ack=False)
        for number in range(3, 6):
            self.publish(channel, "work", str(number))
        self.assertEqual(self.count(channel, "work"), 3)
        self.assertEqual(self.bodies(channel, "work", 3), ["3", "4", "5"])

    def test_bound_in_bytes(self):
        channel = self.channel(confirms=True)
        channel.queue_declare("work", arguments={"x-max-length-bytes": 100})
        for number in range(5):
            self.publish(channel, "work", str(number) * 40)
        self.assertEqual([body[0] for body in self.bodies(channel, "work", 2)], ["3", "4"])
        self.assertEmpty(channel, "work")
        self.publish(channel, "work", "x" * 101)
        self.assertEmpty(channel, "work")

    def test_bound_refuses_the_newest(self):
        channel = self.channel(confirms=True)
        channel.queue_declare("work", arguments={"x-max-length": 2, "x-overflow": "reject-publish"})
        for number in range(2):
            self.publish(channel, "work", str(number))
        with self.assertRaises(pika.exceptions.NackError):
            self.publish(channel, "work", "2")
        self.assertEqual(self.bodies(channel, "work", 2), ["0", "1"])
        self.publish(channel, "work", "3")
        self.assertEqual(self.bodies(channel, "work", 1), ["3"])

    def test_bound_dead_letters_the_newest(self):
        channel = self.channel(confirms=True)
        self.with_dead_letters(channel, "work", **{"x-max-length": 2, "x-overflow": "reject-publish-dlx"})
        for number in range(2):
            self.publish(channel, "work", str(number))
        with self.assertRaises(pika.exceptions.NackError):
            self.publish(channel, "work", "2")
        method, properties, body = self.take(channel, "dead", 1)[0]
        self.assertEqual((body, properties.headers["x-death"][0]["reason"]), (b"2", "maxlen"))
        self.assertEqual(self.bodies(channel, "work", 2), ["0", "1"])

    def test_nothing_fits(self):
        channel = self.channel(confirms=True)
        self.with_dead_letters(channel, "work", **{"x-max-length": 0})
        self.publish(channel, "work", "out")
        self.assertEqual(self.bodies(channel, "dead", 1), ["out"])

    def test_what_goes_straight_to_a_consumer_takes_no_place(self):
        channel, other = self.channel(confirms=True), self.channel()
        channel.queue_declare("narrow", arguments={"x-max-length": 0})
        channel.queue_declare("light", durable=True, arguments={"x-max-length-bytes": 3})
        for queue in ("narrow", "light"):
            got, _ = self.consume(other, queue)
            self.publish(channel, queue, "more than that", delivery_mode=2)
            self.pump(other, lambda: got)

    def test_delivery_limit(self):
        channel = self.channel(confirms=True)
        self.with_dead_letters(channel, "work", **{"x-queue-type": "quorum", "x-delivery-limit": 2})
        self.publish(channel, "work", "poison", delivery_mode=2)
        counts = []
        for _ in range(3):
            method, properties, _ = self.take(channel, "work", 1, ack=False)[0]
            counts.append((properties.headers or {}).get("x-delivery-count"))
            channel.basic_nack(method.delivery_tag, requeue=True)
        _, properties, body = self.take(channel, "dead", 1)[0]
        self.assertEqual((body, properties.headers["x-death"][0]["reason"]), (b"poison", "delivery_limit"))
        self.assertEqual(counts, [None, 1, 2])
        self.assertNotIn("x-delivery-count", properties.headers)

    def test_dead_letters_without_an_exchange_are_gone(self):
        channel = self.channel(confirms=True)
        channel.queue_declare("work", arguments={"x-dead-letter-exchange": "nowhere"})
        self.publish(channel, "work")
        self.take(channel, "work", 1, ack=False)
        channel.basic_nack(1, requeue=False)
        channel.basic_recover(requeue=True)
        self.assertEqual(self.count(channel, "work"), 0)

    @vowmq_only
    def test_dead_letters_outlive_the_broker(self):
        channel = self.channel(confirms=True)
        self.with_dead_letters(channel, "work", **{"x-message-ttl": 1000})
        for number in range(5):
            self.publish(channel, "work", str(number), delivery_mode=2)
        self.broker.kill()
        time.sleep(1.2)
        self.broker.start()
        channel = self.channel()
        came = self.take(channel, "dead", 5)
        self.assertEqual([body.decode() for _, _, body in came], list("01234"))
        self.assertEqual({p.headers["x-death"][0]["reason"] for _, p, _ in came}, {"expired"})
        time.sleep(0.1)  # a consumer's own acknowledgements are on disk a little later
        self.broker.restart()
        self.assertEmpty(self.channel(), "dead")
