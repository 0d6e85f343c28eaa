#!/usr/bin/env bash
# Mosquitto and vowmq side by side, the same work in one run; prints a Markdown table and, before it, each raw result.
#
#   tests/bench/mqtt.sh LOADGEN VOWMQ [MESSAGES]
#
# LOADGEN is a load generator with the subcommands `mqtt`, `mqtt-idle`, `disk` and `echo` that prints one JSON object
# a run (it is not part of this repository); VOWMQ the release binary; mosquitto must be installed. All on loopback.
set -euo pipefail
loadgen=$1 vowmq=$2 messages=${3:-200000}
work=$(mktemp -d)
pids=()
cleanup() { kill "${pids[@]}" 2>/dev/null || true; wait 2>/dev/null || true; rm -rf "$work"; }
trap cleanup EXIT

cat > "$work/mosquitto.conf" <<CONF
listener 18831 127.0.0.1
allow_anonymous true
max_queued_messages 0
max_inflight_messages 1000
set_tcp_nodelay true
persistence false
CONF
mosquitto -c "$work/mosquitto.conf" >/dev/null 2>&1 & mosquitto_pid=$!; pids+=("$mosquitto_pid")
"$vowmq" --data-dir "$work/store" --mqtt 127.0.0.1:18832 --set limits.inflight=1000 > "$work/vowmq.out" 2>"$work/vowmq.err" &
vowmq_pid=$!; pids+=("$vowmq_pid")
for _ in $(seq 100); do
  grep -q '^ready' "$work/vowmq.out" && (: < /dev/tcp/127.0.0.1/18831) 2>/dev/null && break
  sleep 0.05
done

run() { # name, arguments: both brokers, one after the other
  local name=$1; shift
  "$loadgen" mqtt --addr 127.0.0.1:18831 --pid "$mosquitto_pid" --label "$name|mosquitto" "$@"
  "$loadgen" mqtt --addr 127.0.0.1:18832 --pid "$vowmq_pid" --label "$name|vowmq" "$@"
}
{
  run "QoS 0, 1 to 1" --qos 0 --count "$messages"
  run "QoS 1, window 100" --qos 1 --window 100 --count "$messages"
  run "QoS 2, window 100" --qos 2 --window 100 --count "$messages"
  run "QoS 1, window 1, 64 publishers" --qos 1 --window 1 --pubs 64 --count "$((messages / 64))"
  # The floors, around what depends on them: the machine's disk changes within minutes.
  "$loadgen" disk --dir "$work/store"; "$loadgen" echo
  run "offline durable session, window 100" --qos 1 --window 100 --offline 1 --subs 0 --count "$messages"
  run "offline durable session, window 1000" --qos 1 --window 1000 --offline 1 --subs 0 --count "$messages"
  run "offline durable session, window 1" --qos 1 --window 1 --offline 1 --subs 0 --count 2000
  "$loadgen" disk --dir "$work/store"; "$loadgen" echo
  "$loadgen" mqtt-idle --addr 127.0.0.1:18831 --conns 10000 --pid "$mosquitto_pid" --label "idle|mosquitto"
  "$loadgen" mqtt-idle --addr 127.0.0.1:18832 --conns 10000 --pid "$vowmq_pid" --label "idle|vowmq"
} | tee "$work/results.jsonl"

# A restart with a million messages waiting.
kill "$vowmq_pid"; wait "$vowmq_pid" || true
"$vowmq" --data-dir "$work/million" --mqtt 127.0.0.1:18832 > "$work/vowmq.out" 2>>"$work/vowmq.err" & vowmq_pid=$!; pids+=("$vowmq_pid")
until grep -q '^ready' "$work/vowmq.out"; do sleep 0.05; done
"$loadgen" mqtt --addr 127.0.0.1:18832 --qos 1 --window 1000 --offline 1 --subs 0 --count 1000000 --pid "$vowmq_pid" >/dev/null
kill -9 "$vowmq_pid"; wait "$vowmq_pid" 2>/dev/null || true
"$vowmq" --data-dir "$work/million" --mqtt 127.0.0.1:18832 > "$work/vowmq.out" 2>>"$work/vowmq.err" & vowmq_pid=$!; pids+=("$vowmq_pid")
until grep -q '^ready' "$work/vowmq.out"; do sleep 0.05; done

python3 - "$work/results.jsonl" "$work/vowmq.out" <<'PYTHON'
import json, sys
rows = [json.loads(line) for line in open(sys.argv[1])]
table, floors = {}, []
for row in rows:
    if "floor" in row:
        floors.append(row.get("sync_us") or row.get("round_trip_us"))
    else:
        work, broker = row["label"].split("|")
        table.setdefault(work, {})[broker] = row
print("\n| work | what | Mosquitto | vowmq | ratio |\n|---|---|---|---|---|")
def line(work, what, key):
    a, b = key(table[work]["mosquitto"]), key(table[work]["vowmq"])
    print(f"| {work} | {what} | {a:,.2f} | {b:,.2f} | {a / b:.1f} |" if b else f"| {work} | {what} | {a} | {b} | - |")
for work in table:
    if work == "idle":
        line(work, "bytes a connection", lambda row: row["bytes_per_conn"])
    elif work.startswith("offline"):
        line(work, "acknowledged a second", lambda row: row["publish_per_s"])
        line(work, "ack p50, µs", lambda row: row["ack_us"]["p50"])
    else:
        line(work, "broker CPU a message, µs", lambda row: row["broker_cpu_us_per_msg"])
print(f"\nsync p50 {floors[0]['p50']} and {floors[2]['p50']} µs, round trip p50 {floors[1]['p50']} and {floors[3]['p50']} µs,"
      " before and after the offline rows")
print("restart with a million messages:", [l.strip() for l in open(sys.argv[2]) if l.startswith("recovered")][0])
PYTHON
