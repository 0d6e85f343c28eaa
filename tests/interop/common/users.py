"""Users of the broker, as its operator makes them."""

import subprocess


def lines(binary, **passwords):
    """The table `[users]`, by `vowmq user NAME`."""
    made = "[users]\n"
    for name, password in passwords.items():
        done = subprocess.run(
            [binary, "user", name], input=password + "\n", text=True, capture_output=True, check=True, timeout=10
        )
        made += done.stdout
    return made
