"""The server's OpenAPI file against the specification, and real requests and answers against the file.

Run:  WARPSMITH_CLI=build/test/bin/warpsmith python3 python/tests/test_openapi.py
with an interpreter that has openapi-spec-validator; without it the test is reported as skipped.
"""

import importlib.util
import json
import pathlib
import unittest
import urllib.error
import urllib.request

from serving import ServedTest

SPECIFICATION = pathlib.Path(__file__).resolve().parents[2] / "src" / "serve" / "openapi.json"
RECIPE = {"problem": "48x40x56", "recipe": "cpu simd=avx2 tile=4x1"}


@unittest.skipIf(importlib.util.find_spec("openapi_spec_validator") is None, "not installed: openapi-spec-validator")
class OpenApiTest(ServedTest):
    OPTIONS = ["--max-queue", "4"]

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        _, cls.specification = cls.ask("GET", "/openapi.json")

    @classmethod
    def ask(cls, method, path, body=None, authorization=None):
        headers = {"Content-Type": "application/json", "Authorization": authorization or f"Bearer {cls.TOKEN}"}
        data = None if body is None else json.dumps(body).encode()
        try:
            with urllib.request.urlopen(urllib.request.Request(cls.url + path, data, headers, method=method)) as answer:
                text, status = answer.read().decode(), answer.status
        except urllib.error.HTTPError as error:
            text, status = error.read().decode(), error.code
            error.close()
        return status, json.loads(text) if path != "/metrics" else text

    def follow(self, node):
        while "$ref" in node:
            place = self.specification
            for part in node["$ref"].removeprefix("#/").split("/"):
                place = place[part]
            node = place
        return node

    def conforms(self, schema, instance):
        from openapi_schema_validator import OAS30Validator

        whole = {**schema, "components": self.specification["components"]}
        return [error.message for error in OAS30Validator(whole).iter_errors(instance)]

    def exchange(self, method, path, body=None, accepted=True, template=None, **more):
        """One request whose body is (not) as the file says, and whose answer must be."""
        operation = self.specification["paths"][template or path][method.lower()]
        if body is not None:
            faults = self.conforms(operation["requestBody"]["content"]["application/json"]["schema"], body)
            self.assertEqual(not faults, accepted, f"{path} {body}: {faults}")
        status, answer = self.ask(method, path, body, **more)
        self.assertIn(str(status), operation["responses"], f"{path} {body}: {answer}")
        content = self.follow(operation["responses"][str(status)])["content"]
        if "application/json" in content:
            self.assertEqual(self.conforms(content["application/json"]["schema"], answer), [], f"{path}: {answer}")
        return status, answer

    def test_the_file_is_valid_and_is_the_one_that_is_served(self):
        from openapi_spec_validator import validate

        validate(self.specification)
        self.assertEqual(self.specification, json.loads(SPECIFICATION.read_text()))

    def test_candidates(self):
        status, answer = self.exchange("POST", "/v1/candidates", {**RECIPE, "wait_seconds": 60})
        self.assertEqual((status, answer["state"]), (200, "done"))
        self.assertEqual(self.exchange("GET", f"/v1/candidates/{answer['id']}", template="/v1/candidates/{id}")[0], 200)
        self.assertEqual(self.exchange("GET", "/v1/candidates/none", template="/v1/candidates/{id}")[0], 404)
        full = {**RECIPE, "priority": 3, "deadline_seconds": 90.5, "remeasure": True, "device": "cpu"}
        self.assertEqual(self.exchange("POST", "/v1/candidates", {"candidates": [full], "wait_seconds": 60})[0], 200)
        mixed = {"candidates": [RECIPE, {**RECIPE, "recipe": "none"}]}
        self.assertIn(self.exchange("POST", "/v1/candidates", mixed)[0], (200, 202))
        other = {"problem": "48x40x56", "recipe": "cpu simd=avx2 tile=2x1"}
        self.assertIn(self.exchange("POST", "/v1/candidates", other)[0], (200, 202))
        many = {"candidates": [{**other, "problem": f"48x40x{k}"} for k in range(60, 70)]}
        self.assertEqual(self.exchange("POST", "/v1/candidates", many)[0], 429)

    def test_what_the_file_forbids_is_refused(self):
        for body in ({**RECIPE, "wait_seconds": -1}, {**RECIPE, "priority": 101}, {**RECIPE, "priority": "high"},
                     {**RECIPE, "unknown": 1}, {"candidates": []}, {"candidates": [RECIPE], "more": 1},
                     {**RECIPE, "remeasure": 1}, {**RECIPE, "recipe": 7}, []):
            self.assertEqual(self.exchange("POST", "/v1/candidates", body, accepted=False)[0], 422, body)
        for body in ({"query": "text"}, {"query": []}, {"prompts": []}):
            self.assertEqual(self.exchange("POST", "/get_reward", body, accepted=False)[0], 422, body)
        self.assertEqual(self.exchange("POST", "/v1/candidates", RECIPE, authorization="Bearer wrong")[0], 401)

    def test_rewards_devices_health_and_metrics(self):
        completion = "## Performance analysis\nx\n## Algorithm design\ny\n## Code\n```recipe\ncpu simd=avx2 tile=4x1\n```"
        body = {"query": ["Q" + completion, "prose"], "prompts": ["Q", None], "labels": ["48x40x56", {"problem": "48x40x56"}]}
        self.assertEqual(self.exchange("POST", "/get_reward", body)[0], 200)
        for path in ("/v1/devices", "/healthz", "/metrics", "/openapi.json"):
            self.assertEqual(self.exchange("GET", path)[0], 200)


if __name__ == "__main__":
    unittest.main()
