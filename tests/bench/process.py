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


def machine():
    """Date, processor, system, in one line."""
    model = "unknown processor"
    with open("/proc/cpuinfo") as file:
        for line in file:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    date = time.strftime("%Y-%m-%d")
    return f"{date}, {os.cpu_count()} cores ({model}), {platform.system()} {platform.release()}"
