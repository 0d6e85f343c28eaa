"""What the Celery worker of `celery_tasks` runs. The broker and a directory for traces are named by the environment."""

import os
import time

from celery import Celery

app = Celery("interop", broker=os.environ["BROKER_URL"], backend="rpc://")
app.conf.task_acks_late = True
app.conf.task_reject_on_worker_lost = True
app.conf.worker_prefetch_multiplier = 1
app.conf.broker_connection_retry_on_startup = True
app.conf.task_default_queue = "celery"


def trace(name, text):
    with open(os.path.join(os.environ["TRACES"], name), "a") as file:
        file.write(f"{text}\n")


@app.task
def add(x, y):
    return x + y


@app.task(bind=True, max_retries=3)
def fails_twice(self):
    if self.request.retries < 2:
        raise self.retry(countdown=0.1)
    return self.request.retries


@app.task
def now():
    return time.time()


@app.task
def slow(seconds):
    trace("slow", os.getpid())
    time.sleep(seconds)
    trace("slow", "done")
