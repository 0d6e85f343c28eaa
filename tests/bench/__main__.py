"""Mosquitto, RabbitMQ and vowmq on one machine, the same work for each: tables and charts by one command.

    cargo build --release && cargo build --release -p vowmq-core --example large_numbers
    python3 tests/bench RESULTS --loadgen LOADGEN

writes comparison.md, comparison.svg, large-numbers.md and large-numbers.svg into the directory RESULTS. LOADGEN is a load
generator with the subcommands `mqtt`, `mqtt-idle`, `amqp`, `disk` and `echo` that prints one JSON object a run; it is not part of
this repository. mosquitto and rabbitmq-server have to be installed (Debian's packages; `--without NAME` does without).
Python's standard library is enough; Linux only, since memory and processor time are read from /proc.

A section (`--only`) is measured anew and the others are kept as RESULTS/results.json has them. A
section is a file with `rows(field, loadgen, sizes)`, and its name in SECTIONS.
"""

import argparse
import dataclasses
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True

import backlog
import chart
import connections
import durable
import large_numbers
import mqtt5
import process
import queues
import report
import routing
import stalls
import throughput
from brokers import Failed, Field
from loadgen import GIB, Loadgen
from row import Row
from sizes import Sizes, quick

SECTIONS = {
    "throughput": throughput,
    "durable": durable,
    "stalls": stalls,
    "connections": connections,
    "routing": routing,
    "queues": queues,
    "mqtt5": mqtt5,
    "backlog": backlog,
}
LARGE = "large-numbers"


def arguments():
    target = os.path.join(os.environ.get("CARGO_TARGET_DIR", "target"), "release")
    parser = argparse.ArgumentParser(
        prog="python3 tests/bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("results", help="directory for tables and charts, made if it is missing")
    parser.add_argument("--loadgen", required=True, help="the load generator")
    parser.add_argument("--target", default=target, help="where cargo put vowmq and examples/large_numbers (%(default)s)")
    parser.add_argument("--only", action="append", choices=[*SECTIONS, LARGE], help="this section; may be repeated")
    parser.add_argument("--without", action="append", default=[], choices=["Mosquitto", "RabbitMQ"])
    parser.add_argument("--backlog", type=int, help="messages queued in the section backlog (10,000,000)")
    parser.add_argument("--work", help="directory for the stores, on the disk that is to be measured (RESULTS)")
    parser.add_argument("--free-gib", type=float, default=8, help="stop where less is free on that disk (%(default)s)")
    parser.add_argument("--quick", action="store_true", help="try the machinery; the figures say nothing")
    return parser.parse_args()


def version(command):
    out = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    return out.splitlines()[0].strip() if out else command[0]


def versions(field, binary):
    found = []
    for kind in field.kinds:
        package = "mosquitto" if kind.name == "Mosquitto" else "rabbitmq-server"
        found.append(f"{kind.name} {version(['dpkg-query', '-W', '-f', '${Version}', package])}")
    return [*found, version([binary, "--version"])]


class Results:
    """What was measured, section by section and on which machine, in a file that a later run of other sections adds to."""

    def __init__(self, directory, file_name):
        os.makedirs(directory, exist_ok=True)
        self.directory = directory
        self.file_name = file_name
        self.sections = {}
        path = os.path.join(directory, file_name)
        if os.path.exists(path):
            with open(path) as file:
                self.sections = json.load(file)

    def keep(self, section, found, machine):
        self.sections[section] = {"machine": machine, "found": found}
        self.write(self.file_name, json.dumps(self.sections, indent=1, ensure_ascii=False))

    def found(self, section):
        return self.sections.get(section, {}).get("found", [])

    def machines(self, sections):
        """More than one where sections were measured at different times."""
        return " and ".join(dict.fromkeys(self.sections[each]["machine"] for each in sections if each in self.sections))

    def write(self, name, content):
        with open(os.path.join(self.directory, name), "w") as file:
            file.write(content)

    def draw(self, brokers):
        if rows := [Row(**row) for section in SECTIONS for row in self.found(section)]:
            machine = self.machines(SECTIONS)
            self.write("comparison.md", report.comparison(rows, machine, brokers))
            self.write("comparison.svg", chart.bars(rows, machine))
        if points := self.found(LARGE):
            machine = self.machines([LARGE])
            self.write("large-numbers.md", report.large_numbers(points, machine))
            self.write("large-numbers.svg", chart.lines(points, machine))


def main():
    options = arguments()
    sizes = quick() if options.quick else Sizes()
    if options.backlog:
        sizes.backlog = options.backlog
    results = Results(options.results, "quick.json" if options.quick else "results.json")
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    place = options.work or options.results
    os.makedirs(place, exist_ok=True)
    work = tempfile.mkdtemp(prefix="bench-", dir=place)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the brokers that run are stopped on the way out
    failed = False
    try:
        binary = os.path.abspath(os.path.join(options.target, "vowmq"))
        program = os.path.abspath(os.path.join(options.target, "examples", "large_numbers"))
        for needed in (binary, program, options.loadgen):
            if not os.path.exists(needed):
                raise Failed(f"{needed} is not there (`python3 tests/bench --help` says what is needed)")
        field = Field(work, binary, options.without)
        loadgen = Loadgen(os.path.abspath(options.loadgen), work, options.free_gib * GIB)
        machine, brokers = process.machine(), versions(field, binary)
        if options.quick:
            machine += "; a quick trial, whose figures say nothing"
        print(machine, file=sys.stderr)
        for section in options.only or [*SECTIONS, LARGE]:
            print(f"{time.strftime('%H:%M:%S')} {section}", file=sys.stderr)
            try:
                if section == LARGE:
                    found = large_numbers.measure(field, loadgen, program, sizes)
                else:
                    rows = SECTIONS[section].rows(field, loadgen, sizes)
                    failed = failed or any(row.failed for row in rows)
                    found = [dataclasses.asdict(row.judge()) for row in rows]
                results.keep(section, found, machine)
                results.draw(brokers)
            except (Failed, OSError) as error:
                failed = True
                print(f"  {section}: {error}", file=sys.stderr)
    except (Failed, OSError) as error:
        failed = True
        print(error, file=sys.stderr)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    sys.exit(1 if failed else 0)


main()
