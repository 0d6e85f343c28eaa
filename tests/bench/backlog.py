"""Many messages queued for a session that is away: what they take in memory, and how long a restart takes then."""

import signal
import time

import process
from row import Row

MIB = 1024 * 1024


def rows(field, loadgen, sizes):
    count = sizes.backlog
    memory = Row("backlog-memory", f"{count:,} messages of 100 bytes queued, each", "bytes of memory", group="bytes of memory")
    memory.target = 40 + 64 * MIB / count
    memory.target_text = f"≤ {memory.target:.1f}, 40 and a share of 64 MiB"
    restart = Row("backlog-restart", f"killed and restarted with {count:,} messages queued", "s until ready")
    for broker in field.all():
        with broker:
            if broker.name != "vowmq":
                some = min(count, sizes.backlog_of_others)
                memory.notes.append(f"{broker.name}: with {some:,}")
                memory.measure(broker.name, lambda: bytes_each(broker, loadgen, some))
                continue
            memory.measure(broker.name, lambda: bytes_each(broker, loadgen, count))
            if memory.figures.get(broker.name) is not None:
                restart.measure(broker.name, lambda: restart_s(broker, restart))
    return [memory, restart]


def bytes_each(broker, loadgen, count):
    empty = process.resident_bytes(broker.pid)
    loadgen.mqtt(broker, qos=1, window=5000 if broker.name == "vowmq" else 1000, offline=1, subs=0, count=count)
    time.sleep(2)
    return (process.resident_bytes(broker.pid) - empty) / count


def restart_s(broker, row):
    broker.stop(signal.SIGKILL)
    started = time.monotonic()
    broker.start()
    took = time.monotonic() - started
    row.notes.append(broker.recovered)
    broker.stop()
    whole = broker.check()
    row.notes.append(f"reading the whole log (vowmq check): {whole:.2f} s")
    row.target = max(3, whole / 5)
    row.target_text = f"≤ {row.target:.2f}: 3, or 5 times faster than reading the whole log"
    return took
