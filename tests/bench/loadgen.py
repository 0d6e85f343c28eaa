"""Runs the load generator: the same work against any broker, one JSON object a run."""

import json
import shutil
import subprocess
import time

from brokers import Failed

GIB = 1024**3


class Loadgen:
    """`path` of the binary; `directory` on the file system that is measured; runs end when less than `free_bytes` are
    left on it."""

    def __init__(self, path, directory, free_bytes):
        self.path = path
        self.directory = directory
        self.free_bytes = free_bytes

    def mqtt(self, broker, **options):
        """One run of `loadgen mqtt` with these options (`sub_qos=1` for `--sub-qos 1`, `durable=True` for `--durable`)."""
        return self._run("mqtt", "--addr", broker.mqtt, "--pid", str(broker.pid), *as_arguments(options))

    def amqp(self, broker, **options):
        """One run of `loadgen amqp` with these options."""
        return self._run("amqp", "--addr", broker.amqp, "--pid", str(broker.pid), *as_arguments(options))

    def mqtt_idle(self, broker, connections):
        return self._run("mqtt-idle", "--addr", broker.mqtt, "--pid", str(broker.pid), "--conns", str(connections))

    def sync_us(self, count=1000):
        """A synced write of 4 KiB."""
        return self._run("disk", "--dir", self.directory, "--count", str(count))["sync_us"]

    def round_trip_us(self):
        """A round trip on loopback with one change of thread."""
        return self._run("echo")["round_trip_us"]

    def floors(self):
        """Medians of a sync and of a round trip, now, in microseconds."""
        return self.sync_us()["p50"], self.round_trip_us()["p50"]

    def _run(self, *arguments):
        command = [self.path, *arguments]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            while process.poll() is None:
                free = shutil.disk_usage(self.directory).free
                if free < self.free_bytes:
                    raise Failed(f"stopped: only {free / GIB:.1f} GiB are free")
                time.sleep(0.02)
            out, errors = process.communicate()
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        if process.returncode != 0:
            raise Failed(f"the load generator failed: {errors.strip().splitlines()[-1] if errors.strip() else out}")
        return json.loads(out)


def as_arguments(options):
    arguments = []
    for name, value in options.items():
        flag = "--" + name.replace("_", "-")
        arguments += [flag] if value is True else [flag, str(value)]
    return arguments
