"""Publishing: confirms, returns, transactions, where messages go, and what of them is kept. With pika."""

import os

import pika

from broker import Case, vowmq_only


class Publishing(Case):
    def test_confirm_of_what_nobody_takes(self):
        channel = self.channel(confirms=True)
        channel.exchange_declare("e", "direct")
        self.publish(channel, "nowhere", exchange="e")
        self.publish(channel, "nowhere")

    def test_mandatory_is_returned_before_its_confirm(self):
        connection = self.connect()
        channel = connection.channel()
        told = []
        channel._impl.add_on_return_callback(lambda _c, method, properties, body: told.append((method, properties, body)))
        ready = []
        channel._impl.confirm_delivery(lambda frame: told.append(frame.method), callback=ready.append)
        self.pump(channel, lambda: ready)
        channel._impl.basic_publish("", "nowhere", b"back", pika.BasicProperties(message_id="m"), mandatory=True)
        self.pump(channel, lambda: len(told) == 2)
        (method, properties, body), confirm = told
        self.assertEqual((method.reply_code, method.reply_text), (312, "NO_ROUTE"))
        self.assertEqual((method.exchange, method.routing_key, properties.message_id), ("", "nowhere", "m"))
        self.assertEqual((body, type(confirm), confirm.delivery_tag), (b"back", pika.spec.Basic.Ack, 1))

    def test_mandatory_to_the_topic_exchange(self):
        channel = self.channel(confirms=True)
        with self.assertRaises(pika.exceptions.UnroutableError):
            self.publish(channel, "a.b", exchange="amq.topic", mandatory=True)

    def test_mandatory_that_arrives_is_not_returned(self):
        channel = self.channel(confirms=True)
        channel.queue_declare("q")
        self.publish(channel, "q", mandatory=True)
        with self.assertRaises(pika.exceptions.UnroutableError):
            self.publish(channel, "nowhere", mandatory=True)
        self.assertEqual(self.bodies(channel, "q", 1), ["x"])

    def test_confirms_come_in_order_without_gaps(self):
        channel = self.channel()
        channel.queue_declare("durable", durable=True)
        channel.queue_declare("transient")
        settled = []

        def confirmed(frame):
            tag = frame.method.delivery_tag
            before = set(settled)
            covered = range(1, tag) if frame.method.multiple else ()
            settled.extend(number for number in [*covered, tag] if number not in before)
            self.assertNotIn(tag, before)

        channel._impl.confirm_delivery(confirmed, callback=lambda _ok: None)
        for number in range(500):
            queue = "durable" if number % 3 else "transient"
            channel._impl.basic_publish("", queue, b"x", pika.BasicProperties(delivery_mode=2))
        self.pump(channel, lambda: len(settled) >= 500)
        if hasattr(self.broker, "kill"):
            self.assertEqual(settled, list(range(1, 501)))  # RabbitMQ has an order of its own
        self.assertEqual(sorted(settled), list(range(1, 501)))

    def test_every_property_and_header_comes_as_it_went(self):
        channel = self.channel(confirms=True)
        channel.queue_declare("q")
        headers = {
            "int": 7,
            "negative": -7,
            "long": 1 << 40,
            "text": "grün",
            "true": True,
            "none": None,
            "bytes": b"\x00\xff",
            "list": [1, "two", {"three": 3}],
            "table": {"a": {"b": "c"}},
            "empty": "",
        }
        given = pika.BasicProperties(
            content_type="text/plain",
            content_encoding="gzip",
            headers=headers,
            delivery_mode=1,
            priority=5,
            correlation_id="c",
            reply_to="r",
            expiration="60000",
            message_id="m",
            timestamp=1700000000,
            type="t",
            user_id="guest",
            app_id="a",
            cluster_id="k",
        )
        channel.basic_publish("", "q", b"", given)
        _, properties, body = self.take(channel, "q", 1)[0]
        headers["bytes"] = properties.headers["bytes"]
        self.assertEqual((properties, body), (given, b""))

    def test_bodies_of_many_sizes(self):
        channel = self.channel(confirms=True)
        channel.queue_declare("q", durable=True)
        got, _ = self.consume(channel, "q", auto_ack=True)
        for size in (0, 1, 131064, 131065, 300000, 5_000_000):
            body = os.urandom(size)
            for mode in (1, 2):
                self.publish(channel, "q", body, delivery_mode=mode)
                self.pump(channel, lambda: got)
                self.assertTrue(got.pop()[2] == body, f"{size} bytes came back changed")

    def test_one_copy_whatever_leads_there(self):
        channel = self.channel(confirms=True)
        channel.exchange_declare("a", "topic")
        channel.exchange_declare("b", "fanout")
        channel.queue_declare("q")
        for key in ("#", "x.*", "*.y", "x.y"):
            channel.queue_bind("q", "a", key)
        channel.exchange_bind("b", "a", "x.#")
        channel.queue_bind("q", "b")
        self.publish(channel, "x.y", exchange="a")
        self.assertEqual(self.bodies(channel, "q", 1), ["x"])
        self.assertEmpty(channel, "q")

    def test_exchange_to_exchange(self):
        channel = self.channel(confirms=True)
        for name, kind in (("first", "direct"), ("second", "topic"), ("third", "fanout")):
            channel.exchange_declare(name, kind)
        channel.exchange_bind("second", "first", "k.1")
        channel.exchange_bind("third", "second", "k.*")
        channel.exchange_bind("first", "third")  # round in a circle
        channel.queue_declare("q")
        channel.queue_bind("q", "third")
        self.publish(channel, "k.1", "goes", "first")
        self.publish(channel, "k.2", "does not", "first")
        method, _, body = self.take(channel, "q", 1)[0]
        self.assertEqual((method.exchange, method.routing_key, body), ("first", "k.1", b"goes"))
        self.assertEmpty(channel, "q")
        channel.exchange_unbind("second", "first", "k.1")
        self.publish(channel, "k.1", "gone", "first")
        self.assertEmpty(channel, "q")

    def test_alternate_exchange(self):
        channel = self.channel(confirms=True)
        channel.exchange_declare("main", "direct", arguments={"alternate-exchange": "rest"})
        channel.exchange_declare("rest", "fanout")
        channel.queue_declare("main")
        channel.queue_declare("rest")
        channel.queue_bind("main", "main", "known")
        channel.queue_bind("rest", "rest")
        self.publish(channel, "known", "1", "main", mandatory=True)
        self.publish(channel, "unknown", "2", "main", mandatory=True)
        self.assertEqual(self.bodies(channel, "main", 1), ["1"])
        self.assertEqual(self.bodies(channel, "rest", 1), ["2"])
        self.assertEmpty(channel, "main")

    def test_cc_and_bcc(self):
        channel = self.channel(confirms=True)
        for queue in ("to", "copy", "blind"):
            channel.queue_declare(queue)
        self.publish(channel, "to", headers={"CC": ["copy"], "BCC": ["blind"], "other": 1})
        for queue in ("to", "copy", "blind"):
            method, properties, _ = self.take(channel, queue, 1)[0]
            self.assertEqual(properties.headers, {"CC": ["copy"], "other": 1})
            self.assertEqual(method.routing_key, "to")
        self.publish(channel, "to", headers={"BCC": ["to", "to"]})
        self.take(channel, "to", 1)
        self.assertEmpty(channel, "to")

    def test_cc_that_is_no_list_is_refused(self):
        channel = self.channel()
        channel.queue_declare("to")
        self.refused(406, "CC", channel, lambda: self.publish(channel, "to", headers={"CC": "copy"}))

    def test_transactions(self):
        channel, other = self.channel(), self.channel()
        channel.queue_declare("q", durable=True)
        channel.queue_declare("in")
        self.publish(channel, "in", "task")
        channel.tx_select()
        method, _, _ = self.take(channel, "in", 1, ack=False)[0]
        self.publish(channel, "q", "1", delivery_mode=2)
        self.publish(channel, "q", "2", delivery_mode=2)
        channel.basic_ack(method.delivery_tag)
        self.assertEmpty(other, "q")
        channel.tx_commit()
        self.assertEqual(self.bodies(other, "q", 2), ["1", "2"])
        self.publish(channel, "q", "3")
        channel.tx_rollback()
        self.publish(channel, "q", "4")
        channel.tx_commit()
        self.assertEqual(self.bodies(other, "q", 1), ["4"])
        channel.close()
        self.assertEmpty(other, "in")

    def test_rollback_takes_acknowledgements_back(self):
        channel = self.channel()
        channel.queue_declare("in")
        self.publish(channel, "in", "task")
        channel.tx_select()
        method, _, _ = self.take(channel, "in", 1, ack=False)[0]
        channel.basic_ack(method.delivery_tag)
        channel.tx_rollback()
        self.assertEqual(self.count(channel, "in"), 0)
        channel.basic_ack(method.delivery_tag)
        channel.tx_commit()
        channel.close()
        other = self.channel()
        self.assertEmpty(other, "in")

    def test_what_was_not_committed_goes_back_with_its_channel(self):
        channel = self.channel()
        channel.queue_declare("in")
        for number in range(3):
            self.publish(channel, "in", str(number))
        channel.tx_select()
        self.take(channel, "in", 3, ack=False)
        channel.basic_ack(1)
        channel.basic_nack(2, requeue=False)
        channel.close()
        self.assertEqual(self.bodies(self.channel(), "in", 3), ["0", "1", "2"])

    def test_confirm_and_transaction_exclude_each_other(self):
        channel = self.channel(confirms=True)
        self.refused(406, "cannot switch from confirm to tx mode", channel, channel.tx_select)
        channel = self.channel()
        channel.tx_select()
        self.refused(406, "cannot switch from tx to confirm mode", channel, channel.confirm_delivery)
        for deed in ("tx_commit", "tx_rollback"):
            channel = self.channel()
            self.refused(406, "channel is not transactional", channel, getattr(channel, deed))

    def test_user_id_must_be_true(self):
        channel = self.channel()
        channel.queue_declare("q")
        self.publish(channel, "q", user_id="guest")
        forged = lambda: self.publish(channel, "q", user_id="admin")
        self.refused(406, "user_id property set to 'admin' but authenticated user was 'guest'", channel, forged)

    def test_what_is_published_wrongly(self):
        channel = self.channel()
        self.refused(404, "no exchange 'none' in vhost '/'", channel, lambda: self.publish(channel, "k", exchange="none"))
        channel = self.channel()
        channel.exchange_declare("inner", "fanout", internal=True)
        text = "cannot publish to internal exchange 'inner' in vhost '/'"
        self.refused(403, text, channel, lambda: self.publish(channel, "k", exchange="inner"))
        channel = self.channel()
        immediate = pika.spec.Basic.Publish(exchange="", routing_key="q", immediate=True)
        self.closed(
            540,
            "immediate=true",
            channel,
            lambda: channel._impl._send_method(immediate, (pika.BasicProperties(), b"x")),
        )

    @vowmq_only
    def test_refused_by_one_queue_is_refused_as_a_whole(self):
        channel = self.channel(confirms=True)
        channel.queue_declare("full", arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
        channel.queue_declare("other")
        for queue in ("full", "other"):
            channel.queue_bind(queue, "amq.fanout")
        self.publish(channel, "", "1", "amq.fanout")
        with self.assertRaises(pika.exceptions.NackError):
            self.publish(channel, "", "2", "amq.fanout")
        self.assertEqual(self.bodies(channel, "full", 1), ["1"])
        self.assertEqual(self.bodies(channel, "other", 1), ["1"])
        self.assertEmpty(channel, "other")
