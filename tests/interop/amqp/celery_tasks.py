"""Celery, with a real worker."""

import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from broker import Case, Target

HERE = os.path.dirname(os.path.abspath(__file__))
WORKER_PATIENCE = 60


class Celery(Case):
    def setUp(self):
        super().setUp()
        self.traces = tempfile.TemporaryDirectory()
        self.addCleanup(self.traces.cleanup)
        self.environment = os.environ | {"BROKER_URL": self.url, "TRACES": self.traces.name, "PYTHONPATH": HERE}
        self.log = open(os.path.join(self.traces.name, "log"), "w+")
        self.addCleanup(self.log.close)

    def worker(self):
        command = [sys.executable, "-m", "celery", "-A", "celery_app", "worker", "--pool=prefork", "--concurrency=1"]
        command += ["--loglevel=INFO", "--without-gossip", "--without-mingle", "-n", f"w{time.time()}@here"]
        worker = subprocess.Popen(
            command, cwd=self.traces.name, env=self.environment, stdout=self.log, stderr=self.log, start_new_session=True
        )
        self.addCleanup(lambda: self.stop(worker))
        return worker

    def stop(self, worker):
        if worker.poll() is None:
            os.killpg(worker.pid, signal.SIGKILL)
            worker.wait()

    def traced(self, name):
        try:
            with open(os.path.join(self.traces.name, name)) as file:
                return file.read().split()
        except FileNotFoundError:
            return []

    def ask(self, script):
        """A script with the tasks at hand; what it prints."""
        done = subprocess.run(
            [sys.executable, "-c", f"from celery_app import *\n{script}"],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=WORKER_PATIENCE,
        )
        if done.returncode != 0:
            self.log.seek(0)
            self.fail(f"{done.stderr}\nthe worker: {self.log.read()}")
        return done.stdout.split()

    def wait(self, what, claim):
        until = time.monotonic() + WORKER_PATIENCE
        while not what():
            if time.monotonic() > until:
                self.log.seek(0)
                self.fail(f"did not come about: {claim}\nthe worker: {self.log.read()}")
            time.sleep(0.05)

    def test_task_retry_and_eta(self):
        self.worker()
        script = f"""
import datetime
print(add.delay(2, 3).get(timeout={WORKER_PATIENCE}))
print(fails_twice.delay().get(timeout={WORKER_PATIENCE}))
eta = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=1)
print(now.apply_async(eta=eta).get(timeout={WORKER_PATIENCE}) >= eta.timestamp())
print(sum(r.get(timeout={WORKER_PATIENCE}) for r in [add.delay(n, 1) for n in range(20)]))
"""
        self.assertEqual(self.ask(script), ["5", "2", "True", "210"])

    def test_task_of_a_killed_worker_runs_again(self):
        worker = self.worker()
        self.ask("slow.delay(3)")
        self.wait(lambda: self.traced("slow"), "the task has begun")
        self.stop(worker)
        self.worker()
        self.wait(lambda: self.traced("slow")[-1:] == ["done"], "the task has run again")
        begun = self.traced("slow")
        self.assertEqual(len(begun), 3, begun)
        self.assertNotEqual(begun[0], begun[1])
        channel = self.channel()
        self.until(lambda: self.count(channel, "celery") == 0, "the queue is empty")

    @unittest.skipIf(Target.rabbitmq, "only for vowmq")
    def test_tasks_outlive_the_broker(self):
        self.ask("slow.delay(0)\nslow.delay(0)")
        self.broker.restart()
        self.worker()
        self.wait(lambda: self.traced("slow").count("done") == 2, "both tasks have run")
