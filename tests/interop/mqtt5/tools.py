"""Command line clients of Debian: mosquitto_pub and mosquitto_sub, and paho C's paho_c_pub and paho_c_sub."""

import subprocess
import time

from broker import PATIENCE, Case, vowmq_only


class Mosquitto(Case):
    def run_to_end(self, program, *arguments, **options):
        return subprocess.run(
            [f"mosquitto_{program}", "-V", "5", "-p", str(self.broker.port), *arguments],
            capture_output=True,
            timeout=PATIENCE + 5,
            **options,
        )

    def publish(self, *arguments, **options):
        done = self.run_to_end("pub", *arguments, **options)
        self.assertEqual(done.returncode, 0, done.stderr)

    def subscribe(self, *arguments):
        done = self.run_to_end("sub", *arguments, "-W", str(PATIENCE))
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.decode()

    def test_properties_of_what_was_stored(self):
        """Stored by name of the session, taken later with everything that was said."""
        self.subscribe("-i", "s", "-c", "-x", "60", "-t", "a/#", "-q", "2", "-E")
        given = {"content-type": "text", "correlation-data": "c", "response-topic": "r", "message-expiry-interval": "100"}
        options = [word for name, value in given.items() for word in ("-D", "publish", name, value)]
        options += ["-D", "publish", "payload-format-indicator", "1", "-D", "publish", "user-property", "k", "v"]
        for qos in "12":
            self.publish("-t", f"a/{qos}", "-m", f"with {qos}", "-q", qos, *options)
        said = self.subscribe(
            *("-i", "s", "-c", "-x", "60", "-t", "a/#", "-q", "2", "-C", "2"), "-F", "%t %p %q %C %D %R %F %P"
        )
        self.assertEqual(
            sorted(said.splitlines()), [f"a/{qos} with {qos} {qos} text c r 1 k:v" for qos in "12"], said
        )

    def test_session_expiry(self):
        """`-x` with an interval that ends, and one that does not."""
        for client, expiry in (("short", "1"), ("ever", "4294967295")):
            self.subscribe("-i", client, "-c", "-x", expiry, "-t", client, "-q", "1", "-E")
        time.sleep(2.2)
        for client in ("short", "ever"):
            self.publish("-t", client, "-m", client, "-q", "1")
        found = self.run_to_end("sub", "-i", "short", "-c", "-x", "1", "-t", "other", "-q", "1", "-W", "1")
        self.assertEqual(found.stdout, b"")
        self.assertEqual(self.subscribe("-i", "ever", "-c", "-t", "ever", "-q", "1", "-C", "1"), "ever\n")

    def test_subscribe_options(self):
        """`--retain-as-published`, `--retain-handling`, and retained messages."""
        self.publish("-t", "r", "-m", "kept", "-r", "-q", "1")
        self.assertEqual(self.subscribe("-t", "r", "-C", "1", "-F", "%p %r"), "kept 1\n")
        never = self.run_to_end("sub", "-t", "r", "--retain-handling", "never", "-W", "1")
        self.assertEqual(never.stdout, b"")

    def test_alias(self):
        """Many lines over one alias."""
        self.subscribe("-i", "s", "-c", "-x", "60", "-t", "long/topic", "-q", "1", "-E")
        lines = [f"{number}" for number in range(50)]
        self.publish(
            *("-t", "long/topic", "-q", "1", "-l", "-D", "publish", "topic-alias", "1"), input="\n".join(lines).encode()
        )
        self.assertEqual(self.subscribe("-i", "s", "-c", "-t", "x", "-q", "1", "-C", "50").split(), lines)

    @vowmq_only("stops sending behind a message that is too large")
    def test_maximum_packet(self):
        """What is too large for a subscriber does not reach it."""
        self.subscribe("-i", "s", "-c", "-x", "60", "-t", "a", "-q", "1", "-E")
        self.publish("-t", "a", "-q", "1", "-m", "x" * 200)
        self.publish("-t", "a", "-q", "1", "-m", "small")
        given = ("-D", "connect", "maximum-packet-size", "100")
        self.assertEqual(self.subscribe("-i", "s", "-c", "-t", "x", "-q", "1", "-C", "1", *given), "small\n")

    def test_shared_by_both_versions(self):
        """Two processes of one group, of 3.1.1 and 5."""
        members, quiet = [], dict(stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        for version in ("mqttv311", "mqttv5"):
            command = ["stdbuf", "-oL", "mosquitto_sub", "-V", version, "-p", str(self.broker.port), "-d", "-W", "3"]
            member = subprocess.Popen([*command, "-t", "$share/g/a", "-q", "1"], **quiet)
            for line in member.stdout:
                if "SUBACK" in line:
                    break
            members.append(member)
        self.publish("-t", "a", "-q", "1", "-l", input="\n".join(map(str, range(20))).encode())
        said = [member.communicate(timeout=PATIENCE)[0].split("\n") for member in members]
        found = [[line for line in lines if line.isdigit()] for lines in said]
        self.assertEqual(sorted(int(n) for lines in found for n in lines), list(range(20)))
        self.assertTrue(all(found))

    def test_will(self):
        """With a delay, of a process that is killed."""
        watcher = self.subscribed("watcher", "w")
        command = ["mosquitto_sub", "-V", "5", "-p", str(self.broker.port), "-t", "x", "-x", "60", "-c", "-i", "d"]
        command += ["--will-topic", "w", "--will-payload", "gone", "-D", "will", "will-delay-interval", "1", "-d"]
        device = subprocess.Popen(["stdbuf", "-oL", *command], stdout=subprocess.PIPE, text=True)
        for line in device.stdout:
            if "SUBACK" in line:
                break
        device.kill()
        device.communicate()
        begun = time.monotonic()
        self.assertEqual(watcher.message().payload, b"gone")
        self.assertGreater(time.monotonic() - begun, 0.7)


class PahoC(Case):
    def publish(self, *arguments):
        command = ["paho_c_pub", "-h", "127.0.0.1", "-p", str(self.broker.port), "-V", "5", "-k", "10", *arguments]
        done = subprocess.run(command, capture_output=True, timeout=PATIENCE)
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)

    def listen(self, topic, qos, version="5"):
        """A process that has got its first message, which is retained."""
        command = ["stdbuf", "-oL", "paho_c_sub", "-h", "127.0.0.1", "-p", str(self.broker.port), "-V", version]
        listener = subprocess.Popen(
            [*command, "-t", topic, "-q", qos, "--verbose"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self.addCleanup(lambda: (listener.kill(), listener.communicate()))
        return listener

    def lines(self, listener, word):
        found = []
        for line in listener.stdout:
            found.append(line.strip())
            if word in line:
                return found
        self.fail(f"{word} did not come: {found}")

    def test_publish(self):
        """Every QoS, with a user property and an expiry."""
        wire = self.subscribed("c", ("a", 2))
        for qos in "012":
            self.publish("-t", "a", "-m", f"with {qos}", "-q", qos, "--user-property", "k", "v", "--message-expiry", "30")
            found = wire.message()
            self.assertEqual((found.payload, found.qos), (f"with {qos}".encode(), int(qos)))
            self.assertEqual(found.properties["user"], [("k", "v")])
            self.assertIn(found.properties["message_expiry"], (29, 30))

    def test_retained(self):
        """Set and cleared."""
        self.publish("-t", "r", "-m", "kept", "-q", "1", "-r")
        self.assertEqual(self.subscribed("c", "r").message().payload, b"kept")
        self.publish("-t", "r", "-n", "-q", "1", "-r")
        self.assertSilent(self.subscribed("d", "r"))

    def test_subscribe(self):
        """What comes, live and retained, in both versions."""
        publisher = self.connected("p")
        publisher.publish("a/first", "kept", retain=True)
        for version in ("5", "311"):
            listener = self.listen("a/#", "2", version)
            self.lines(listener, "kept")
            for qos in (0, 1, 2):
                publisher.publish(f"a/{qos}", f"live {qos}", qos, user=[("k", "v")], content_type="t")
            publisher.publish("a/end", "end", 2)
            said = "\n".join(self.lines(listener, "end"))
            for qos in (0, 1, 2):
                self.assertIn(f"live {qos}", said)
            listener.terminate()
            listener.wait(PATIENCE)

    def test_from_one_to_the_other(self):
        """Its own publisher and subscriber."""
        self.connected("p").publish("a/first", "kept", retain=True)
        listener = self.listen("a/+", "2")
        self.lines(listener, "kept")
        self.publish("-t", "a/b", "-m", "from C", "-q", "2", "--user-property", "k", "v")
        self.lines(listener, "from C")
