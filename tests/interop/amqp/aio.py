"""aio-pika."""

import asyncio
import unittest

import aio_pika

from broker import PATIENCE, Case, Target


class AioPika(Case):
    def run_with(self, body):
        async def run():
            connection = await aio_pika.connect_robust(self.url)
            async with connection:
                await asyncio.wait_for(body(connection), PATIENCE)

        asyncio.run(run())

    def test_publish_and_iterate(self):
        async def body(connection):
            channel = await connection.channel()
            await channel.set_qos(prefetch_count=10)
            queue = await channel.declare_queue("q", durable=True)
            for number in range(100):
                message = aio_pika.Message(
                    str(number).encode(),
                    delivery_mode=aio_pika.DeliveryMode.PERSISTENT,
                    headers={"number": number},
                    message_id=str(number),
                )
                await channel.default_exchange.publish(message, "q")
            async with queue.iterator() as messages:
                async for message in messages:
                    async with message.process():
                        number = int(message.body)
                        self.assertEqual((message.headers["number"], message.message_id), (number, str(number)))
                    if number == 99:
                        break
            self.assertEqual((await queue.purge()).message_count, 0)

        self.run_with(body)

    def test_many_publishers_at_once(self):
        async def body(connection):
            channel = await connection.channel()
            queue = await channel.declare_queue("q", durable=True)
            messages = [aio_pika.Message(str(n).encode(), delivery_mode=2) for n in range(500)]
            await asyncio.gather(*(channel.default_exchange.publish(message, "q") for message in messages))
            self.assertEqual((await queue.purge()).message_count, 500)

        self.run_with(body)

    def test_returned_and_refused(self):
        async def body(connection):
            channel = await connection.channel(on_return_raises=True)
            with self.assertRaises(aio_pika.exceptions.DeliveryError):
                await channel.default_exchange.publish(aio_pika.Message(b"x"), "nowhere", mandatory=True)
            channel = await connection.channel()
            with self.assertRaises(aio_pika.exceptions.ChannelNotFoundEntity):
                await channel.get_queue("none")
            channel = await connection.channel()
            await channel.declare_queue("q")
            with self.assertRaises(aio_pika.exceptions.ChannelPreconditionFailed):
                await channel.declare_queue("q", durable=True)

        self.run_with(body)

    def test_transaction(self):
        async def body(connection):
            channel = await connection.channel(publisher_confirms=False)
            queue = await channel.declare_queue("q")
            with self.assertRaises(ZeroDivisionError):
                async with channel.transaction():
                    await channel.default_exchange.publish(aio_pika.Message(b"never"), "q")
                    1 / 0
            async with channel.transaction():
                await channel.default_exchange.publish(aio_pika.Message(b"kept"), "q")
            message = await queue.get(timeout=PATIENCE)
            self.assertEqual(message.body, b"kept")
            await message.ack()
            self.assertIsNone(await queue.get(fail=False))

        self.run_with(body)

    @unittest.skipIf(Target.rabbitmq, "only for vowmq")
    def test_comes_back_after_a_crash(self):
        async def body(connection):
            channel = await connection.channel()
            queue = await channel.declare_queue("q", durable=True)
            got = asyncio.Queue()
            await queue.consume(got.put)
            await channel.default_exchange.publish(aio_pika.Message(b"1", delivery_mode=2), "q")
            await (await got.get()).ack()
            self.broker.restart()
            # It reconnects, declares and consumes again by itself.
            until = asyncio.get_running_loop().time() + PATIENCE
            while True:
                try:
                    await channel.default_exchange.publish(aio_pika.Message(b"2", delivery_mode=2), "q", timeout=1)
                    break
                except Exception:
                    self.assertLess(asyncio.get_running_loop().time(), until, "it has not come back")
                    await asyncio.sleep(0.1)
            while (await got.get()).body != b"2":
                pass

        self.run_with(body)
