#!/usr/bin/env bash
# The reward functions in the trainers themselves: python/tests/test_trainers.py with an environment that has them, and a
# record of what ran.
#   scripts/trainers.sh PYTHON      PYTHON: of an environment with trl, verl, requests and aiohttp, or some of them
# Result: ${OUT:-results}/trainers.json: versions, and of every test passed, failed or why it was skipped. Needs
# build/test/bin/warpsmith, or WARPSMITH_CLI. Exit codes: 0 all that could run passed, 1 not, 2 bad input, 3 something is
# missing.
set -euo pipefail

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)
python=${1:-}
export WARPSMITH_CLI=${WARPSMITH_CLI:-$root/build/test/bin/warpsmith}
out=${OUT:-$root/results}
[[ -n $python ]] || { echo 'trainers: usage: scripts/trainers.sh PYTHON' >&2 && exit 2; }
[[ -x $WARPSMITH_CLI ]] || { echo "trainers: there is no $WARPSMITH_CLI; build it or set WARPSMITH_CLI" >&2 && exit 3; }
mkdir -p "$out"
export HF_HUB_OFFLINE=1 TRANSFORMERS_VERBOSITY=error
commit=$(git -C "$root" describe --always --dirty --exclude '*')
PYTHONPATH=$root/python/tests "$python" - "$out/trainers.json" "$commit" <<'PY'
import datetime, importlib.metadata, json, pathlib, sys, unittest

path, commit = pathlib.Path(sys.argv[1]), sys.argv[2]
versions = {}
for package in ("trl", "verl", "torch", "transformers", "accelerate", "datasets", "tensordict", "ray", "requests", "aiohttp"):
    try:
        versions[package] = importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        versions[package] = None


class Recorded(unittest.TextTestResult):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.outcomes = {}

    def note(self, test, outcome):
        self.outcomes[test.id().rpartition(".")[2]] = outcome

    def addSuccess(self, test):
        super().addSuccess(test)
        self.note(test, "passed")

    def addFailure(self, test, error):
        super().addFailure(test, error)
        self.note(test, "failed")

    def addError(self, test, error):
        super().addError(test, error)
        self.note(test, "failed")

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.note(test, f"skipped: {reason}")


suite = unittest.defaultTestLoader.loadTestsFromName("test_trainers")
result = unittest.TextTestRunner(resultclass=Recorded, verbosity=2).run(suite)
row = {"python": sys.version.split()[0], "versions": versions, "tests": result.outcomes, "commit": commit,
       "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")}
path.write_text(json.dumps(row, indent=1) + "\n")
print(path, json.dumps(result.outcomes))
sys.exit(0 if result.wasSuccessful() and "passed" in result.outcomes.values() else 1)
PY
