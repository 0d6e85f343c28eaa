"""The comparison as a Markdown table."""

BROKERS = ("Mosquitto", "RabbitMQ", "vowmq")


def comparison(rows, machine, versions):
    lines = [
        f"Measured on {machine}; {', '.join(versions)}. All on loopback, messages of 100 bytes, one broker at a time. "
        "A ratio says how many times better vowmq is.",
        "",
        "| work | what | Mosquitto | RabbitMQ | vowmq | ÷ Mosquitto | ÷ RabbitMQ | target | met |",
        "|---|---|--:|--:|--:|--:|--:|---|---|",
    ]
    notes = []
    for row in rows:
        mark = ""
        if row.notes:
            notes.append(f"{len(notes) + 1}. {row.work}: {'; '.join(row.notes)}")
            mark = f" ({len(notes)})"
        cells = [row.work + mark, row.what]
        cells += [figure(row.figures.get(name)) for name in BROKERS]
        cells += [figure(row.ratio(name)) for name in BROKERS[:2]]
        cells += [row.target_text or "–", {True: "yes", False: "**no**", None: "–"}[row.met]]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines + ["", *notes, ""])


def large_numbers(points, machine):
    """One table for each thing that grows; `points` as `large_numbers.measure` gives them."""
    lines = [f"Measured on {machine}. Costs are µs an operation.", ""]
    for what in dict.fromkeys(point["what"] for point in points):
        same = [point for point in points if point["what"] == what]
        operations = list(same[0]["cost_us"])
        lines.append(f"| {what} | bytes each | " + " | ".join(operations) + " |")
        lines.append("|--:" * (2 + len(operations)) + "|")
        for point in same:
            cells = [f"{point['n']:,}", f"{point['bytes_each']:,}", *(figure(point["cost_us"][name]) for name in operations)]
            lines.append("| " + " | ".join(cells) + " |")
        lines.append("")
    return "\n".join(lines)


def figure(value):
    if value is None:
        return "–"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
