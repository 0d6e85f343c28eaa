"""The brokers that are compared: each is started on a directory and on ports of its own, on loopback, and stopped again.

A broker is a context manager; inside it has `pid` (the process whose processor time and memory count), `directory` and
`mqtt` (its address), those that speak AMQP `amqp`.
"""

import glob
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time

PATIENCE_S = 120


class Failed(Exception):
    """What was to be measured could not be; the text says why."""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(ready, process, name):
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        if ready():
            return
        if process.poll() is not None:
            raise Failed(f"{name} ended with {process.returncode} before it was ready")
        time.sleep(0.05)
    raise Failed(f"{name} was not ready within {PATIENCE_S} s")


def accepts(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Broker:
    """What all have in common. `name` is its column in the table; `share` how much of the work it is given (a slow one
    would take hours); `qos2` whether it knows QoS 2."""

    name = ""
    share = 1.0
    qos2 = True

    def __init__(self, work):
        self.work = work
        self.port = free_port()
        self.mqtt = f"127.0.0.1:{self.port}"

    def __enter__(self):
        self.directory = tempfile.mkdtemp(prefix=f"{self.name.lower()}-", dir=self.work)
        self.log = open(os.path.join(self.directory, "output"), "w+")
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.stop()
        self.log.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    def run(self, command, **more):
        streams = {"stdin": subprocess.DEVNULL, "stdout": self.log, "stderr": subprocess.STDOUT}
        self.process = subprocess.Popen(command, **(streams | more))
        self.pid = self.process.pid

    def stop(self, with_signal=signal.SIGTERM):
        process = getattr(self, "process", None)
        if process is None or process.poll() is not None:
            return
        process.send_signal(with_signal)
        try:
            process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class Mosquitto(Broker):
    """Without persistence: with it, it saves at intervals, never before an acknowledgement."""

    name = "Mosquitto"

    def start(self):
        path = os.path.join(self.directory, "mosquitto.conf")
        with open(path, "w") as file:
            file.write(
                f"listener {self.port} 127.0.0.1\nallow_anonymous true\nmax_queued_messages 0\n"
                "max_inflight_messages 1000\nset_tcp_nodelay true\npersistence false\n"
            )
        self.run(["mosquitto", "-c", path])
        wait_for(lambda: accepts(self.port), self.process, self.name)


class RabbitMQ(Broker):
    """With its plugin `rabbitmq_mqtt`. It confirms a message in a classic queue without a sync. Its AMQP listener is at
    `amqp`."""

    name = "RabbitMQ"
    share = 0.1
    qos2 = False  # the plugin takes it for QoS 1

    @staticmethod
    def server():
        found = sorted(glob.glob("/usr/lib/rabbitmq/lib/rabbitmq_server-*/sbin/rabbitmq-server"))
        return found[-1] if found else None

    def start(self):
        amqp, distribution, names = free_port(), free_port(), free_port()
        self.amqp = f"127.0.0.1:{amqp}"
        inside = lambda name: os.path.join(self.directory, name)
        with open(inside("rabbitmq.conf"), "w") as file:
            file.write(
                f"listeners.tcp.1 = 127.0.0.1:{amqp}\nmqtt.listeners.tcp.1 = 127.0.0.1:{self.port}\n"
                "mqtt.allow_anonymous = true\nmqtt.prefetch = 1000\n"
                "distribution.listener.interface = 127.0.0.1\n"
                f"distribution.listener.port_range.min = {distribution}\n"
                f"distribution.listener.port_range.max = {distribution}\n"
            )
        with open(inside("enabled_plugins"), "w") as file:
            file.write("[rabbitmq_mqtt].")
        open(inside("env.conf"), "w").close()
        environment = os.environ | {
            "HOME": self.directory,
            "ERL_EPMD_PORT": str(names),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": "bench@localhost",
            "RABBITMQ_CONF_ENV_FILE": inside("env.conf"),
            "RABBITMQ_CONFIG_FILE": inside("rabbitmq.conf"),
            "RABBITMQ_MNESIA_BASE": inside("mnesia"),
            "RABBITMQ_LOG_BASE": inside("log"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": inside("enabled_plugins"),
            # So the script becomes the broker, instead of watching over it.
            "RABBITMQ_ALLOW_INPUT": "true",
            "RABBITMQ_SERVER_START_ARGS": "-noinput",
        }
        # Erlang's name server, which the broker would else leave behind as a daemon.
        command = ["epmd", "-port", str(names), "-address", "127.0.0.1"]
        self.names = subprocess.Popen(command, stdout=self.log, stderr=subprocess.STDOUT)
        wait_for(lambda: accepts(names), self.names, "epmd")
        self.run([self.server()], env=environment)
        wait_for(lambda: accepts(self.port) and accepts(amqp), self.process, self.name)

    def stop(self, with_signal=signal.SIGTERM):
        super().stop(with_signal)
        if hasattr(self, "names"):
            self.names.kill()
            self.names.wait()


class Vowmq(Broker):
    """With `sync = "always"`, its default. What a message costs it is little, so it is given more of them: the system
    counts processor time in steps of 10 ms."""

    name = "vowmq"
    share = 5.0

    def __init__(self, work, binary, settings=()):
        super().__init__(work)
        self.binary = binary
        self.settings = ["limits.inflight=1000", *settings]
        self.amqp = f"127.0.0.1:{free_port()}"

    @property
    def store(self):
        return os.path.join(self.directory, "store")

    def start(self):
        arguments = [part for setting in self.settings for part in ("--set", setting)]
        with open(os.path.join(self.directory, "errors"), "a") as errors:
            self.run(
                [self.binary, "--data-dir", self.store, "--mqtt", self.mqtt, "--amqp", self.amqp, *arguments],
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        self.recovered = ""
        for line in self.process.stdout:
            if line.startswith("recovered"):
                self.recovered = line.strip()
            elif line.strip() == "ready":
                return
        with open(os.path.join(self.directory, "errors")) as errors:
            raise Failed(f"vowmq did not get ready: {errors.read()[-400:].strip()}")

    def stop(self, with_signal=signal.SIGTERM):
        super().stop(with_signal)
        if hasattr(self, "process"):
            self.process.stdout.close()

    def last_segment(self):
        """The highest number of a segment in the store, one that is only prepared included."""
        return max(int(name.split(".")[0]) for name in os.listdir(self.store) if name.endswith(".log"))

    def check(self):
        """Seconds that `vowmq check` takes to read the whole log of the stopped store."""
        started = time.monotonic()
        subprocess.run([self.binary, "check", "--data-dir", self.store], check=True, stdout=subprocess.DEVNULL)
        return time.monotonic() - started


class Field:
    """The brokers that take part, made anew for every measurement."""

    def __init__(self, work, vowmq, without=()):
        self.work = work
        self.binary = vowmq
        present = {"Mosquitto": shutil.which("mosquitto"), "RabbitMQ": RabbitMQ.server()}
        for name in without:
            present.pop(name, None)
        missing = [name for name, found in present.items() if not found]
        if missing:
            raise Failed(f"not installed: {', '.join(missing)} (install, or say --without NAME)")
        self.kinds = [kind for kind in (Mosquitto, RabbitMQ) if kind.name in present]

    def vowmq(self, *settings):
        return Vowmq(self.work, self.binary, settings)

    def named(self, name):
        return next((kind(self.work) for kind in self.kinds if kind.name == name), None) or self.vowmq()

    def all(self):
        return [kind(self.work) for kind in self.kinds] + [self.vowmq()]
