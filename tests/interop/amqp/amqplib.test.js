// amqplib against the broker that BROKER_URL names. Each test has names of its own.
const { test } = require("node:test");
const assert = require("node:assert");
const amqp = require("amqplib");

const withConnection = (claim, body) =>
  test(claim, { timeout: 20000 }, async () => {
    const connection = await amqp.connect(process.env.BROKER_URL);
    connection.on("error", () => {});
    try {
      await body(connection);
    } finally {
      await connection.close().catch(() => {});
    }
  });

/// The first `count` messages of a queue.
const take = (channel, queue, count, options) =>
  new Promise((done) => {
    const found = [];
    channel.consume(queue, (message) => found.push(message) === count && done(found), options);
  });

withConnection("confirmed messages arrive in order with all their properties", async (connection) => {
  const channel = await connection.createConfirmChannel();
  await channel.assertQueue("js work", { durable: true, maxPriority: undefined });
  for (let number = 0; number < 100; number++) {
    const headers = { number, nested: { list: [1, "two", true, null] } };
    channel.sendToQueue("js work", Buffer.from(String(number)), { persistent: true, headers, messageId: `m${number}` });
  }
  await channel.waitForConfirms();
  const found = await take(channel, "js work", 100, { noAck: true });
  found.forEach((message, number) => {
    assert.equal(message.content.toString(), String(number));
    assert.deepEqual(message.properties.headers, { number, nested: { list: [1, "two", true, null] } });
    assert.equal(message.properties.messageId, `m${number}`);
    assert.equal(message.properties.deliveryMode, 2);
  });
});

withConnection("prefetch bounds what is out", async (connection) => {
  const channel = await connection.createConfirmChannel();
  await channel.assertQueue("js prefetch");
  for (let number = 0; number < 10; number++) channel.sendToQueue("js prefetch", Buffer.from("x"));
  await channel.waitForConfirms();
  await channel.prefetch(3);
  const out = [];
  await channel.consume("js prefetch", (message) => out.push(message));
  await new Promise((done) => setTimeout(done, 200));
  assert.equal(out.length, 3);
  channel.ack(out[2], true);
  while (out.length < 6) await new Promise((done) => setTimeout(done, 10));
  channel.nackAll(true);
  await channel.close();
});

withConnection("a question gets its answer by direct reply-to", async (connection) => {
  const [client, server] = [await connection.createChannel(), await connection.createChannel()];
  await server.assertQueue("js rpc");
  await server.consume("js rpc", (message) => {
    server.sendToQueue(message.properties.replyTo, Buffer.from(`re ${message.content}`), {
      correlationId: message.properties.correlationId,
    });
    server.ack(message);
  });
  const answer = new Promise((done) => client.consume("amq.rabbitmq.reply-to", done, { noAck: true }));
  client.sendToQueue("js rpc", Buffer.from("hello"), { replyTo: "amq.rabbitmq.reply-to", correlationId: "7" });
  const message = await answer;
  assert.equal(message.content.toString(), "re hello");
  assert.equal(message.properties.correlationId, "7");
});

withConnection("topics, bindings between exchanges, and what is returned", async (connection) => {
  const channel = await connection.createConfirmChannel();
  await channel.assertExchange("js first", "topic");
  await channel.assertExchange("js second", "headers");
  const { queue } = await channel.assertQueue("", { exclusive: true });
  await channel.bindExchange("js second", "js first", "a.*");
  await channel.bindQueue(queue, "js second", "", { "x-match": "any", kind: "k" });
  const returned = new Promise((done) => channel.on("return", done));
  channel.publish("js first", "b.c", Buffer.from("back"), { mandatory: true });
  channel.publish("js first", "a.b", Buffer.from("there"), { headers: { kind: "k" } });
  await channel.waitForConfirms();
  assert.equal((await returned).fields.replyText, "NO_ROUTE");
  const [message] = await take(channel, queue, 1);
  assert.equal(message.fields.routingKey, "a.b");
});

withConnection("large bodies pass", async (connection) => {
  const channel = await connection.createConfirmChannel();
  await channel.assertQueue("js large", { durable: true });
  const body = Buffer.alloc(5_000_000, "abcdefg");
  channel.sendToQueue("js large", body, { persistent: true });
  await channel.waitForConfirms();
  const [message] = await take(channel, "js large", 1, { noAck: true });
  assert.ok(message.content.equals(body));
});

withConnection("dead letters tell their story", async (connection) => {
  const channel = await connection.createConfirmChannel();
  await channel.assertQueue("js dead");
  await channel.assertQueue("js short", { messageTtl: 100, deadLetterExchange: "", deadLetterRoutingKey: "js dead" });
  channel.sendToQueue("js short", Buffer.from("late"));
  const [message] = await take(channel, "js dead", 1, { noAck: true });
  const [death] = message.properties.headers["x-death"];
  assert.equal(death.reason, "expired");
  assert.equal(death.queue, "js short");
  assert.equal(death.count, 1);
});

withConnection("what is wrong closes the channel, not the connection", async (connection) => {
  const channel = await connection.createChannel();
  const closed = new Promise((done) => channel.on("error", done));
  await assert.rejects(channel.checkQueue("js none"), /404/);
  assert.match((await closed).message, /NOT_FOUND/);
  const other = await connection.createChannel();
  await other.assertQueue("js there");
  const refused = new Promise((done) => other.on("error", done));
  await assert.rejects(other.assertQueue("js there", { durable: false }), /406/);
  await refused;
  await (await connection.createChannel()).deleteQueue("js there");
});
