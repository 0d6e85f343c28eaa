"""Memory of connections that do nothing."""

from row import Row

BYTES = "bytes of memory"


def rows(field, loadgen, sizes):
    found = []
    for connections in sizes.connections:
        row = Row(f"idle{connections}", f"{connections:,} idle connections, each", BYTES, target=2048,
                  target_text="≤ 2,048", group=BYTES)
        for broker in field.all():
            count = int(connections * min(broker.share, 1))
            if count < connections:
                row.notes.append(f"{broker.name}: with {count:,}")
            with broker:
                row.measure(broker.name, lambda: loadgen.mqtt_idle(broker, count)["bytes_per_conn"])
        found.append(row)
    return found
