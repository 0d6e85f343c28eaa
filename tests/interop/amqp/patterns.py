"""The examples of the AMQP literature, with pika."""

import pika

from broker import Case


class Patterns(Case):
    def test_work_queue_shares_its_tasks(self):
        channel = self.channel(confirms=True)
        channel.queue_declare("tasks", durable=True)
        workers = [self.channel() for _ in range(3)]
        got = []
        for worker in workers:
            worker.basic_qos(prefetch_count=1)
            got.append(self.consume(worker, "tasks")[0])
        for number in range(9):
            self.publish(channel, "tasks", f"task {number}", delivery_mode=2)
        done = [0, 0, 0]
        while sum(done) < 9:
            for index, worker in enumerate(workers):
                self.pump(worker, lambda: len(got[index]) > done[index] or sum(done) + 1 > 9)
                worker.basic_ack(got[index][-1][0].delivery_tag)
                done[index] += 1
        self.assertEqual(done, [3, 3, 3])
        self.assertEqual(sorted(b.decode() for g in got for _, _, b in g), [f"task {n}" for n in range(9)])

    def test_publish_subscribe(self):
        channel = self.channel(confirms=True)
        channel.exchange_declare("logs", "fanout")
        queues = [channel.queue_declare("", exclusive=True).method.queue for _ in range(3)]
        for queue in queues:
            self.assertTrue(queue.startswith("amq.gen-"), queue)
            channel.queue_bind(queue, "logs")
        self.publish(channel, "ignored", "hello", "logs")
        for queue in queues:
            method, _, body = self.take(channel, queue, 1)[0]
            self.assertEqual((method.exchange, method.routing_key, body), ("logs", "ignored", b"hello"))

    def test_routing_by_key(self):
        channel = self.channel(confirms=True)
        channel.exchange_declare("direct_logs", "direct")
        for queue, keys in (("errors", ["error"]), ("all", ["info", "warning", "error"])):
            channel.queue_declare(queue)
            for key in keys:
                channel.queue_bind(queue, "direct_logs", key)
        for key in ("info", "warning", "error", "debug"):
            self.publish(channel, key, key, "direct_logs")
        self.assertEqual(self.bodies(channel, "errors", 1), ["error"])
        self.assertEqual(self.bodies(channel, "all", 3), ["info", "warning", "error"])
        self.assertEmpty(channel, "errors")
        self.assertEmpty(channel, "all")

    def test_topics(self):
        channel = self.channel(confirms=True)
        channel.exchange_declare("animals", "topic")
        for queue, keys in (
            ("orange", ["*.orange.*"]),
            ("slow rabbits", ["*.*.rabbit", "lazy.#"]),
            ("any", ["#"]),
            ("none or more", ["a.#.z"]),
        ):
            channel.queue_declare(queue)
            for key in keys:
                channel.queue_bind(queue, "animals", key)
        keys = ["quick.orange.rabbit", "lazy.orange.elephant", "quick.orange.fox", "lazy.brown.fox", "lazy.pink.rabbit"]
        keys += ["quick.brown.fox", "orange", "quick.orange.new.rabbit", "lazy.orange.new.rabbit", "lazy", "a.z", "a.b.c.z", ""]
        for key in keys:
            self.publish(channel, key, key, "animals")
        self.assertEqual(self.bodies(channel, "orange", 3), keys[:3])
        self.assertEqual(
            self.bodies(channel, "slow rabbits", 6), [keys[0], keys[1], keys[3], keys[4], keys[8], keys[9]]
        )
        self.assertEqual(self.bodies(channel, "any", len(keys)), keys)
        self.assertEqual(self.bodies(channel, "none or more", 2), ["a.z", "a.b.c.z"])

    def test_headers(self):
        channel = self.channel(confirms=True)
        channel.exchange_declare("reports", "headers")
        bindings = {
            "all": {"x-match": "all", "type": "pdf", "pages": 3},
            "any": {"x-match": "any", "type": "pdf", "pages": 3},
            "default is all": {"type": "pdf", "pages": 3},
            "there": {"x-match": "all", "type": None},
            "x too": {"x-match": "all-with-x", "x-kind": "k"},
            "any x": {"x-match": "any-with-x", "x-kind": "k"},
            "x passed by": {"x-match": "all", "x-kind": "k", "type": "pdf"},
        }
        for queue, arguments in bindings.items():
            channel.queue_declare(queue)
            channel.queue_bind(queue, "reports", "", arguments)
        messages = {
            "both": {"type": "pdf", "pages": 3, "more": True},
            "one": {"type": "txt", "pages": 3},
            "other type": {"type": "pdf", "pages": "3"},
            "x": {"x-kind": "k"},
            "none": None,
        }
        for body, headers in messages.items():
            self.publish(channel, "", body, "reports", headers=headers)
        expected = {
            "all": ["both"],
            "any": ["both", "one", "other type"],
            "default is all": ["both"],
            "there": ["both", "one", "other type"],
            "x too": ["x"],
            "any x": ["x"],
            "x passed by": ["both", "other type"],
        }
        for queue, bodies in expected.items():
            self.assertEqual(self.bodies(channel, queue, len(bodies)), bodies, queue)
            self.assertEmpty(channel, queue)

    def test_rpc(self):
        server, client = self.channel(), self.channel()
        server.queue_declare("rpc")
        replies = client.queue_declare("", exclusive=True).method.queue
        answers, _ = self.consume(client, replies, auto_ack=True)
        calls, _ = self.consume(server, "rpc")
        self.publish(client, "rpc", "30", reply_to=replies, correlation_id="c1")
        self.pump(server, lambda: calls)
        method, properties, body = calls[0]
        self.publish(server, properties.reply_to, str(int(body) + 1), correlation_id=properties.correlation_id)
        server.basic_ack(method.delivery_tag)
        self.pump(client, lambda: answers)
        self.assertEqual((answers[0][1].correlation_id, answers[0][2]), ("c1", b"31"))

    def test_direct_reply_to(self):
        server, client = self.channel(), self.channel(confirms=True)
        server.queue_declare("rpc")
        answers, _ = self.consume(client, "amq.rabbitmq.reply-to", auto_ack=True)
        self.publish(client, "rpc", "q", reply_to="amq.rabbitmq.reply-to", correlation_id="c2")
        _, properties, _ = self.take(server, "rpc", 1)[0]
        self.assertTrue(properties.reply_to.startswith("amq.rabbitmq.reply-to."), properties.reply_to)
        # A server may see whether the asker is still there.
        server.queue_declare(properties.reply_to, passive=True)
        self.publish(server, properties.reply_to, "a", correlation_id=properties.correlation_id)
        self.pump(client, lambda: answers)
        self.assertEqual((answers[0][1].correlation_id, answers[0][2]), ("c2", b"a"))
        client.connection.close()
        self.until(lambda: self.is_gone(properties.reply_to), "the address goes with the asker")
        server.confirm_delivery()
        with self.assertRaises(pika.exceptions.UnroutableError):
            self.publish(server, properties.reply_to, "late", mandatory=True)

    def is_gone(self, queue):
        try:
            self.channel().queue_declare(queue, passive=True)
            return False
        except pika.exceptions.ChannelClosedByBroker:
            return True

    def test_direct_reply_to_is_refused_without_a_consumer(self):
        channel = self.channel()
        publish = lambda: self.publish(channel, "nowhere", reply_to="amq.rabbitmq.reply-to")
        self.refused(406, "fast reply consumer does not exist", channel, publish)
        other = self.channel()
        consume = lambda: self.consume(other, "amq.rabbitmq.reply-to")
        self.refused(406, "reply consumer cannot acknowledge", other, consume)
