"""What a message costs the broker's processor while everybody is connected."""

from row import Row

CPU = "µs of processor time a message"


def rows(field, loadgen, sizes):
    works = [
        # key, work, options, target in µs, what one message is divided by
        ("qos0", "QoS 0, 1 publisher to 1 subscriber", dict(qos=0), 0.8, 1),
        ("qos1", "QoS 1, window 100, the same", dict(qos=1, window=100), 1.6, 1),
        ("qos2", "QoS 2, window 100, the same", dict(qos=2, window=100), 3.5, 1),
        ("pubs64", "QoS 1, window 1, 64 publishers to 1 subscriber", dict(qos=1, window=1, pubs=64), 8, 1),
        ("fanout", "QoS 0, 1 publisher to 100 subscribers, a delivery", dict(qos=0, subs=100), 0.4, 100),
    ]
    found = {
        key: Row(key, work, CPU, target=target, target_text=f"≤ {target}", group=CPU)
        for key, work, _, target, _ in works
    }
    for broker in field.all():
        with broker:
            for key, _, options, _, deliveries in works:
                row = found[key]
                if options["qos"] == 2 and not broker.qos2:
                    row.notes.append(f"{broker.name} has no QoS 2")
                    continue
                count = count_of(sizes, broker, options.get("pubs", 1), deliveries)
                row.measure(broker.name, lambda: cpu_us(loadgen.mqtt(broker, count=count, **options), row) / deliveries)
    return list(found.values())


def count_of(sizes, broker, publishers, deliveries):
    """Messages a publisher. A fan-out is given five times the deliveries, each of which is cheap; many publishers that
    each wait for their acknowledgement are slow with every broker."""
    share = min(broker.share, 1) if publishers > 1 else broker.share
    more = 5 if deliveries > 1 else 1
    return max(int(sizes.messages * share * more / publishers / deliveries), 20)


def cpu_us(result, row):
    if not result["complete"]:
        row.notes.append(f"{result['received']:,} of {result['sent'] * result['subs']:,} messages arrived")
    return result["broker_cpu_us_per_msg"]
