"""Consumers: prefetch, acknowledgements, requeueing, priorities, who is active, who is told. With pika."""

import pika

from broker import Case


class Delivery(Case):
    def fill(self, channel, queue, bodies, **properties):
        channel.confirm_delivery()
        for body in bodies:
            self.publish(channel, queue, str(body), **properties)

    def test_prefetch_of_consumers(self):
        channel = self.channel()
        channel.queue_declare("q")
        self.fill(self.channel(), "q", range(20))
        channel.basic_qos(prefetch_count=3)
        first, _ = self.consume(channel, "q")
        second, _ = self.consume(channel, "q")
        self.pump(channel, lambda: len(first) == 3 and len(second) == 3)
        self.quiet(channel)
        self.assertEqual((len(first), len(second)), (3, 3))
        channel.basic_ack(first[1][0].delivery_tag)
        self.pump(channel, lambda: len(first) == 4)
        channel.basic_nack(second[0][0].delivery_tag, requeue=False)
        self.pump(channel, lambda: len(second) == 4)
        self.quiet(channel)
        self.assertEqual((len(first), len(second)), (4, 4))

    def test_prefetch_of_the_channel(self):
        channel = self.channel()
        channel.queue_declare("q")
        self.fill(self.channel(), "q", range(20))
        channel.basic_qos(prefetch_count=3, global_qos=True)
        first, _ = self.consume(channel, "q")
        second, _ = self.consume(channel, "q")
        self.pump(channel, lambda: len(first) + len(second) == 3)
        method, _, _ = channel.basic_get("q")
        self.assertIsNotNone(method, "Basic.Get is not bound by it")
        self.quiet(channel)
        self.assertEqual(len(first) + len(second), 3)
        channel.basic_ack(0, multiple=True)
        self.pump(channel, lambda: len(first) + len(second) == 6)
        channel.basic_qos(prefetch_count=5, global_qos=True)
        self.pump(channel, lambda: len(first) + len(second) == 8)
        self.quiet(channel)
        self.assertEqual(len(first) + len(second), 8)

    def test_unbounded_and_no_ack(self):
        channel = self.channel()
        channel.queue_declare("q")
        channel.basic_qos(prefetch_count=1)
        self.fill(self.channel(), "q", range(50))
        got, _ = self.consume(channel, "q", auto_ack=True)
        self.pump(channel, lambda: len(got) == 50)
        self.assertEqual([int(body) for _, _, body in got], list(range(50)))
        self.assertEqual([method.delivery_tag for method, _, _ in got], list(range(1, 51)))
        self.refused(406, "unknown delivery tag 1", channel, lambda: channel.basic_ack(1))

    def test_ack_multiple(self):
        channel = self.channel()
        channel.queue_declare("q")
        self.fill(self.channel(), "q", range(6))
        self.take(channel, "q", 6, ack=False)
        channel.basic_ack(2)
        channel.basic_ack(4, multiple=True)
        channel.basic_nack(5, multiple=True, requeue=True)
        self.assertEqual(self.bodies(channel, "q", 1), ["4"])
        channel.close()
        other = self.channel()
        self.assertEqual(self.bodies(other, "q", 1), ["5"])
        self.assertEmpty(other, "q")

    def test_requeued_in_their_old_places(self):
        channel = self.channel()
        channel.queue_declare("q", durable=True)
        self.fill(self.channel(), "q", range(10), delivery_mode=2)
        self.take(channel, "q", 5, ack=False)
        channel.basic_reject(3, requeue=True)
        channel.basic_nack(2, requeue=True)
        channel.basic_nack(4, requeue=True)
        other = self.channel()
        self.assertEqual(self.bodies(other, "q", 2), ["1", "2"])
        channel.connection.close()
        came = self.take(other, "q", 8)
        self.assertEqual([body.decode() for _, _, body in came], list("03456789"))
        self.assertEqual([method.redelivered for method, _, _ in came], [True, True, True] + [False] * 5)

    def test_recover(self):
        channel = self.channel()
        channel.queue_declare("q")
        self.fill(self.channel(), "q", range(3))
        got, _ = self.consume(channel, "q")
        self.pump(channel, lambda: len(got) == 3)
        channel.basic_recover(requeue=True)
        self.pump(channel, lambda: len(got) == 6)
        self.assertEqual([int(body) for _, _, body in got], [0, 1, 2] * 2)
        self.assertEqual([method.redelivered for method, _, _ in got], [False] * 3 + [True] * 3)
        self.refused(406, "unknown delivery tag 1", channel, lambda: channel.basic_ack(1))
        channel = self.channel()
        self.closed(540, "requeue=false", channel, lambda: channel.basic_recover(requeue=False))

    def test_nack_without_requeue_does_not_come_back(self):
        channel = self.channel()
        channel.queue_declare("q")
        self.fill(self.channel(), "q", range(4))
        self.take(channel, "q", 3, ack=False)
        channel.basic_reject(1, requeue=False)
        channel.basic_nack(3, multiple=True, requeue=False)
        self.assertEqual(self.bodies(channel, "q", 1), ["3"])
        self.assertEmpty(channel, "q")

    def test_cancelled_consumer_keeps_what_it_has(self):
        channel, other = self.channel(), self.channel()
        channel.queue_declare("q")
        self.fill(self.channel(), "q", range(3))
        channel.basic_qos(prefetch_count=2)
        got, tag = self.consume(channel, "q")
        self.pump(channel, lambda: len(got) == 2)
        channel.basic_cancel(tag)
        self.assertEqual(self.count(other, "q"), 1)
        channel.basic_ack(got[0][0].delivery_tag)
        channel.basic_nack(got[1][0].delivery_tag)
        self.assertEqual(self.bodies(other, "q", 2), ["1", "2"])

    def test_priorities(self):
        channel = self.channel(confirms=True)
        channel.queue_declare("q", durable=True, arguments={"x-max-priority": 5})
        for number, priority in enumerate((None, 1, 5, 0, 200, 3, 1)):
            self.publish(channel, "q", str(number), priority=priority, delivery_mode=2)
        came = self.take(channel, "q", 7, ack=False)
        self.assertEqual([int(body) for _, _, body in came], [2, 4, 5, 1, 6, 0, 3])
        self.assertEqual([p.priority for _, p, _ in came], [5, 200, 3, 1, 1, None, 0])
        channel.basic_nack(0, multiple=True, requeue=True)
        again = self.take(channel, "q", 7)
        self.assertEqual([int(body) for _, _, body in again], [2, 4, 5, 1, 6, 0, 3])

    def test_consumer_priorities(self):
        channel = self.channel()
        channel.queue_declare("q")
        channel.basic_qos(prefetch_count=2)
        low, _ = self.consume(channel, "q")
        high, tag = self.consume(channel, "q", arguments={"x-priority": 10})
        self.fill(self.channel(), "q", range(3))
        self.pump(channel, lambda: len(low) + len(high) == 3)
        self.assertEqual(([int(b) for _, _, b in high], [int(b) for _, _, b in low]), ([0, 1], [2]))
        channel.basic_cancel(tag)
        self.publish(channel, "q", "3")
        self.pump(channel, lambda: len(low) == 2)
        channel = self.channel()
        wrong = {"x-priority": "high"}
        self.refused(406, "x-priority", channel, lambda: self.consume(channel, "q", arguments=wrong))

    def test_consumers_in_turn(self):
        channel = self.channel()
        channel.queue_declare("q")
        got = [self.consume(channel, "q", auto_ack=True)[0] for _ in range(4)]
        self.fill(self.channel(), "q", range(20))
        self.pump(channel, lambda: sum(map(len, got)) == 20)
        self.assertEqual([len(one) for one in got], [5] * 4)

    def test_single_active_consumer(self):
        channels = [self.channel() for _ in range(3)]
        channels[0].queue_declare("q", arguments={"x-single-active-consumer": True})
        got = [self.consume(channel, "q")[0] for channel in channels]
        self.fill(self.channel(), "q", range(4))
        self.pump(channels[0], lambda: len(got[0]) == 4)
        self.quiet(channels[1])
        self.quiet(channels[2])
        self.assertEqual([len(one) for one in got], [4, 0, 0])
        channels[0].basic_ack(2, multiple=True)
        channels[0].connection.close()
        self.pump(channels[1], lambda: len(got[1]) == 2)
        self.assertEqual([int(body) for _, _, body in got[1]], [2, 3])
        self.assertTrue(all(method.redelivered for method, _, _ in got[1]))
        self.quiet(channels[2])
        self.assertEqual(got[2], [])

    def test_single_active_consumer_stays_whoever_comes(self):
        first, second = self.channel(), self.channel()
        first.queue_declare("q", arguments={"x-single-active-consumer": True})
        one, _ = self.consume(first, "q", auto_ack=True)
        two, _ = self.consume(second, "q", auto_ack=True, arguments={"x-priority": 10})
        self.fill(self.channel(), "q", range(3))
        self.pump(first, lambda: len(one) == 3)
        self.quiet(second)
        self.assertEqual(two, [])
        third = self.channel()
        text = "queue 'q' in vhost '/' in exclusive use"
        self.refused(403, text, third, lambda: self.consume(third, "q", exclusive=True))

    def test_exclusive_consumer(self):
        channel, other = self.channel(), self.channel()
        channel.queue_declare("q")
        _, tag = self.consume(channel, "q", exclusive=True)
        self.refused(403, "queue 'q' in vhost '/' in exclusive use", other, lambda: self.consume(other, "q"))
        channel.basic_cancel(tag)
        self.consume(channel, "q")
        other = self.channel()
        text = "queue 'q' in vhost '/' in exclusive use"
        self.refused(403, text, other, lambda: self.consume(other, "q", exclusive=True))

    def test_consumer_cancel_notify(self):
        channel = self.channel()
        channel.queue_declare("q")
        told = []
        channel.add_on_cancel_callback(told.append)
        self.fill(self.channel(), "q", range(1))
        got, tag = self.consume(channel, "q")
        self.pump(channel, lambda: got)
        self.channel().queue_delete("q")
        self.pump(channel, lambda: told)
        self.assertEqual(told[0].method.consumer_tag, tag)
        # What it has of that queue may still be acknowledged, once.
        channel.basic_ack(got[0][0].delivery_tag)
        channel.queue_declare("other")
        self.refused(406, "unknown delivery tag 1", channel, lambda: channel.basic_ack(1))

    def test_consumer_tag_used_twice(self):
        channel = self.channel()
        channel.queue_declare("q")
        self.consume(channel, "q", consumer_tag="mine")
        again = pika.spec.Basic.Consume(queue="q", consumer_tag="mine", nowait=True)
        self.closed(530, "attempt to reuse consumer tag 'mine'", channel, lambda: channel._impl._send_method(again))

    def test_prefetch_size_is_not_implemented(self):
        channel = self.channel()
        self.closed(540, "prefetch_size!=0 (100)", channel, lambda: channel.basic_qos(prefetch_size=100))

    def test_acknowledged_wrongly(self):
        for deed in (
            lambda c: c.basic_ack(1),
            lambda c: c.basic_nack(7),
            lambda c: c.basic_reject(9),
            lambda c: c.basic_ack(5, multiple=True),
            lambda c: (c.basic_get("full"), c.basic_get("full"), c.basic_ack(2), c.basic_ack(2, multiple=True)),
        ):
            channel = self.channel()
            channel.queue_declare("full")
            self.fill(self.channel(), "full", range(2))
            self.refused(406, "unknown delivery tag", channel, lambda: deed(channel))
        channel = self.channel()
        channel.basic_ack(0, multiple=True)
        channel.queue_declare("q")

    def test_two_channels_of_one_connection(self):
        connection = self.connect()
        first, second = connection.channel(), connection.channel()
        first.queue_declare("q")
        self.fill(self.channel(), "q", range(2))
        self.take(first, "q", 1, ack=False)
        self.take(second, "q", 1, ack=False)
        first.close()
        self.assertEqual(self.bodies(self.channel(), "q", 1), ["0"])
        second.basic_ack(1)
        second.close()
        self.assertEmpty(self.channel(), "q")

    def test_get_counts_what_is_left(self):
        channel = self.channel()
        channel.queue_declare("q")
        self.fill(self.channel(), "q", range(3))
        left = [self.take(channel, "q", 1, ack=False)[0][0].message_count for _ in range(3)]
        self.assertEqual(left, [2, 1, 0])
        self.assertEqual(self.count(channel, "q"), 0)
