"""What the system says of a process and of the machine (Linux)."""

import os
import platform
import time


def cpu_us(pid):
    """Processor time of the process so far, in microseconds; the system counts in steps of 10 ms."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) * 1_000_000 // os.sysconf("SC_CLK_TCK")


def resident_bytes(pid):
    with open(f"/proc/{pid}/status") as file:
        for line in file:
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
    return 0


def wait_until_quiet(pid):
    """Until the process has written nothing for two seconds; for two minutes at the most."""
    written, quiet = None, 0
    for _ in range(240):
        with open(f"/proc/{pid}/io") as file:
            now = next(line for line in file if line.startswith("write_bytes"))
        written, quiet = now, quiet + 1 if now == written else 0
        if quiet == 4:
            return
        time.sleep(0.5)


def busy():
    """A warning if the machine has other things to do, else nothing. Where all cores are taken, whoever waits for a disk is
    woken milliseconds late, and latencies say nothing."""
    load = os.getloadavg()[0]
    return f"the machine was busy with something else: load {load:.1f}" if load > 0.5 else ""


def machine():
    """Date, processor, system, in one line."""
    model = "unknown processor"
    with open("/proc/cpuinfo") as file:
        for line in file:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    date = time.strftime("%Y-%m-%d")
    parts = [f"{date}, {os.cpu_count()} cores ({model}), {platform.system()} {platform.release()}", busy()]
    return "; ".join(part for part in parts if part)
