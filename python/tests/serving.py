"""A reward server for a test case: started on the CPU target before the first test, stopped after the last."""

import os
import re
import subprocess
import tempfile
import threading
import unittest

CLI = os.environ.get("WARPSMITH_CLI", "")


@unittest.skipIf(not CLI, "WARPSMITH_CLI does not name the program")
class ServedTest(unittest.TestCase):
    """Its `url` answers requests with TOKEN; OPTIONS are of `warpsmith serve`."""

    TOKEN = "token-of-the-python-tests"
    OPTIONS = []

    @classmethod
    def setUpClass(cls):
        cls.home = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.home.cleanup)
        cache = os.path.join(tempfile.gettempdir(), "warpsmith-cli-test-cache")
        environment = dict(os.environ, WARPSMITH_DATA=cls.home.name, WARPSMITH_CACHE=cache,
                           WARPSMITH_SERVE_TOKEN=cls.TOKEN)
        cls.server = subprocess.Popen(
            [CLI, "serve", "--target", "cpu", "--threads", "1", "--port", "0", "--effort", "2ms", *cls.OPTIONS],
            stdout=subprocess.PIPE, env=environment, text=True)
        cls.addClassCleanup(cls.stop)
        cls.url = re.search(r"http://\S+", cls.server.stdout.readline()).group(0)
        threading.Thread(target=cls.server.stdout.read, daemon=True).start()

    @classmethod
    def stop(cls):
        cls.server.terminate()
        code = cls.server.wait(60)
        cls.server.stdout.close()
        if code != 0:
            raise AssertionError(f"the server ended with {code}")
