"""Runs moto's server so that it handles one request at a time.

By itself it checks the condition of a write and then writes, on as many threads as there are requests, without a lock:
of two concurrent conditional writes both may succeed, which S3 rules out.
"""

import io
import threading

import moto.server
from werkzeug.serving import run_simple

lock = threading.Lock()


def one_at_a_time(application):
    def call(environ, start_response):
        # The body is read before the lock is taken: a client that hangs while it sends holds up nobody else.
        length = environ.get("CONTENT_LENGTH")
        if length:
            environ["wsgi.input"] = io.BytesIO(environ["wsgi.input"].read(int(length)))
        with lock:
            return application(environ, start_response)

    return call


def run(host, port, application, **options):
    run_simple(host, port, one_at_a_time(application), **options)


moto.server.run_simple = run
moto.server.main()
