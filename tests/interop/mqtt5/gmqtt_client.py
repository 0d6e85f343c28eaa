"""gmqtt, which is asynchronous."""

import asyncio

import gmqtt

from broker import PATIENCE, Case


class Listener:
    """A gmqtt client with what it was told."""

    def __init__(self, name, **options):
        self.client = gmqtt.Client(name, **options)
        self.messages, self.connected, self.subscribed = asyncio.Queue(), asyncio.Queue(), asyncio.Queue()
        self.gone = asyncio.Queue()
        self.client.set_config({"reconnect_retries": 0, "reconnect_delay": 60})
        self.client.on_message = self.take
        self.client.on_connect = lambda _client, flags, reason, properties: self.connected.put_nowait((flags, reason, properties))
        self.client.on_subscribe = lambda _client, _mid, reasons, _properties: self.subscribed.put_nowait(reasons)
        self.client.on_disconnect = lambda _client, packet, exc=None: self.gone.put_nowait(packet)

    async def take(self, _client, topic, payload, qos, properties):
        self.messages.put_nowait((topic, payload, qos, properties))
        return 0

    async def connect(self, port):
        await asyncio.wait_for(self.client.connect("127.0.0.1", port, keepalive=30), PATIENCE)
        self.flags, self.reason, self.properties = await asyncio.wait_for(self.connected.get(), PATIENCE)
        return self

    async def subscribe(self, topic, qos=1, **options):
        identifier = options.pop("identifier", None)
        extra = {"subscription_identifier": identifier} if identifier else {}
        self.client.subscribe(gmqtt.Subscription(topic, qos=qos, **options), **extra)
        return await asyncio.wait_for(self.subscribed.get(), PATIENCE)

    async def next(self):
        return await asyncio.wait_for(self.messages.get(), PATIENCE)


class Gmqtt(Case):
    def play(self, scene):
        asyncio.run(asyncio.wait_for(scene, 3 * PATIENCE))

    def test_properties(self):
        """Everything that a message can say, at every QoS."""

        async def scene():
            listener = await Listener("c").connect(self.broker.port)
            publisher = await Listener("p").connect(self.broker.port)
            self.assertEqual(await listener.subscribe("a/#", 2, identifier=77), (2,))
            for qos in (0, 1, 2):
                publisher.client.publish(
                    f"a/{qos}",
                    b"\0\xff",
                    qos=qos,
                    content_type="text",
                    response_topic="r",
                    correlation_data=b"\0\1",
                    payload_format_id=0,
                    message_expiry_interval=60,
                    user_property=[("b", "1"), ("a", "2"), ("b", "1")],
                )
                topic, payload, at, properties = await listener.next()
                self.assertEqual((topic, bytes(payload), at), (f"a/{qos}", b"\0\xff", qos))
                self.assertEqual(properties["content_type"], ["text"])
                self.assertEqual(properties["response_topic"], ["r"])
                self.assertEqual(properties["correlation_data"], [b"\0\1"])
                self.assertIn(properties["message_expiry_interval"], ([60], [59]))
                self.assertEqual(properties["subscription_identifier"], [77])
                self.assertEqual([tuple(pair) for pair in properties["user_property"]], [("b", "1"), ("a", "2"), ("b", "1")])
            await publisher.client.disconnect()
            await listener.client.disconnect()

        self.play(scene())

    def test_session(self):
        """Kept for its interval, with what came in the meantime."""

        async def scene():
            first = await Listener("s", clean_session=True, session_expiry_interval=60).connect(self.broker.port)
            await first.subscribe("a", 2)
            await first.client.disconnect(session_expiry_interval=30)
            await asyncio.sleep(0.1)
            publisher = await Listener("p").connect(self.broker.port)
            for number in range(10):
                publisher.client.publish("a", str(number), qos=1 + number % 2)
            await asyncio.sleep(0.5)
            again = await Listener("s", clean_session=False, session_expiry_interval=60).connect(self.broker.port)
            self.assertEqual(again.flags & 1, 1)
            found = [int((await again.next())[1]) for _ in range(10)]
            self.assertEqual(sorted(found), list(range(10)))
            await again.client.disconnect()
            await publisher.client.disconnect()

        self.play(scene())

    def test_options(self):
        """No-local and retain-as-published."""

        async def scene():
            listener = await Listener("c").connect(self.broker.port)
            await listener.subscribe("a", 1, no_local=True, retain_as_published=True)
            listener.client.publish("a", "mine", qos=1)
            publisher = await Listener("p").connect(self.broker.port)
            publisher.client.publish("a", "another's", qos=1, retain=True)
            topic, payload, qos, properties = await listener.next()
            self.assertEqual(bytes(payload), b"another's")
            self.assertEqual(properties["retain"], 1)
            await publisher.client.disconnect()
            await listener.client.disconnect()

        self.play(scene())

    def test_will(self):
        """With a delay, and voided by DISCONNECT."""

        async def scene():
            watcher = await Listener("watcher").connect(self.broker.port)
            await watcher.subscribe("w/#")
            for name in ("polite", "rude"):
                will = gmqtt.Message(f"w/{name}", "gone", qos=1, will_delay_interval=1, user_property=[("k", "v")])
                device = await Listener(name, will_message=will, session_expiry_interval=60).connect(self.broker.port)
                if name == "polite":
                    await device.client.disconnect()
                else:
                    await device.client.disconnect(reason_code=4)
            topic, _, _, properties = await watcher.next()
            self.assertEqual(topic, "w/rude")
            self.assertEqual([tuple(pair) for pair in properties["user_property"]], [("k", "v")])
            await watcher.client.disconnect()

        self.play(scene())

    def test_shared(self):
        """Three members, each message once."""

        async def scene():
            members = [await Listener(f"m{number}").connect(self.broker.port) for number in range(3)]
            for member in members:
                await member.subscribe("$share/g/a", 1)
            publisher = await Listener("p").connect(self.broker.port)
            for number in range(30):
                publisher.client.publish("a", str(number), qos=1)
                await asyncio.sleep(0.01)  # it takes no more than the broker's receive maximum at once
            await asyncio.sleep(0.5)
            counts = [member.messages.qsize() for member in members]
            self.assertEqual(sum(counts), 30, counts)
            self.assertTrue(all(counts), counts)
            for one in members + [publisher]:
                await one.client.disconnect()

        self.play(scene())
