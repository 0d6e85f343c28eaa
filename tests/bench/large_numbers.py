"""Memory and cost per operation as numbers grow: subscriptions, durable sessions and retained values inside the core,
each point by a process of its own (`core/examples/large_numbers`); connections from outside."""

import json
import subprocess
import sys

from brokers import Failed


def measure(field, loadgen, program, sizes):
    """Points as `{"what", "n", "bytes_each", "cost_us": {operation: µs}}`."""
    points = []
    for what, numbers in sizes.large.items():
        for n in numbers:
            run = subprocess.run([program, what, str(n)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            if run.returncode != 0:
                raise Failed(f"{program} {what} {n}: {run.stderr.strip()[-400:]}")
            points.append(json.loads(run.stdout))
            print(f"  {what}: {n:,}", file=sys.stderr)
    for n in sizes.large_connections:
        with field.vowmq() as broker:
            result = loadgen.mqtt_idle(broker, n)
        cost = {"connect": result["cpu_us_per_connect"]}
        points.append({"what": "connections", "n": n, "bytes_each": result["bytes_per_conn"], "cost_us": cost})
        print(f"  connections: {n:,}", file=sys.stderr)
    return points
