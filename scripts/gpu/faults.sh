#!/usr/bin/env bash
# On a GPU host: searches until 200 candidates have their verdict while the disk is full, workers are killed and the
# user interrupts, with what scripts/stage.sh made; then asks the archive whether a verdict was lost or is wrong.
#   scripts/gpu/faults.sh        results: ${OUT:-results/h200}/faults.txt. Exit codes: 0 all well, 1 not, 3 nothing staged
# Generated kernels are right: a verdict that blames one (crashed, timed out, wrong at any gate but `resource`) is wrong.
set -uo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)
# shellcheck source=scripts/gpu/steps.sh
source "$here/steps.sh"
readonly wanted=${CANDIDATES:-200} limit_seconds=${LIMIT_SECONDS:-240}
readonly archive=$scratch/archive.sqlite

# optimize CANDIDATES LOG: in the background; its process id in $search.
optimize() {
  "$stage/warpsmith" optimize 512 512 512 --layout tn --archive "$archive" --candidates "$1" --budget 60s \
    --no-sanitizer --quiet --json >"$2" 2>"$2.err" &
  search=$!
}

# Verdicts in the archive that are not failures of the environment.
settled() {
  python3 - "$archive" <<'PY'
import sqlite3, sys
rows = sqlite3.connect(sys.argv[1]).execute("SELECT count(*) FROM attempts WHERE kind != 'failed' AND policy != 'finalist'")
print(rows.fetchone()[0])
PY
}

full_disk() {
  # Files of at most 768 KiB: room for kernels, not for many verdicts.
  (
    ulimit -f 768
    optimize 10000 "$scratch/full.json"
    wait "$search"
    printf 'full disk: exit code %d (3 expected): %s\n' $? "$(tail -n 1 "$scratch/full.json.err" | sed "s|$root/||g")"
  )
  printf 'full disk: %s verdicts in the archive\n' "$(settled)"
}

# Kills the search's workers now and then, and interrupts it after a while.
disturb() {
  local end=$((SECONDS + 4 + RANDOM % 12)) worker
  while kill -0 "$search" 2>/dev/null; do
    sleep "0.$((RANDOM % 9 + 1))"
    if ((RANDOM % 3 == 0)); then
      worker=$(pgrep -P "$search" -x warpsmith-worke | head -n 1)
      if [[ -n $worker ]] && kill -KILL "$worker" 2>/dev/null; then killed=$((killed + 1)); fi
    fi
    if ((SECONDS >= end)); then
      kill -INT "$search" 2>/dev/null && interrupted=$((interrupted + 1))
      break
    fi
  done
  wait "$search"
}

judge() {
  python3 - "$archive" "$wanted" <<'PY'
import collections, json, sqlite3, sys
archive = sqlite3.connect(sys.argv[1])
problems = []
if archive.execute("PRAGMA integrity_check").fetchone()[0] != "ok":
    problems.append("the archive is damaged")
kinds, seen = collections.Counter(), collections.Counter()
for recipe, policy, kind, verdict in archive.execute("SELECT recipe, policy, kind, verdict FROM attempts"):
    kinds[kind] += 1
    gate = json.loads(verdict).get("gate", {})
    gate = gate.get("gate", "") if isinstance(gate, dict) else gate
    if kind in ("crashed", "timed-out", "suspicious") or (kind == "wrong" and gate != "resource"):
        problems.append(f"{kind}: {recipe}: {verdict[:200]}")
    if kind != "failed" and policy != "finalist":
        seen[recipe] += 1
problems += [f"judged {count} times: {recipe}" for recipe, count in seen.items() if count > 1]
if sum(seen.values()) < int(sys.argv[2]):
    problems.append(f"{sum(seen.values())} candidates have a verdict, {sys.argv[2]} were wanted")
print("verdicts:", dict(kinds))
for problem in problems[:20]:
    print("PROBLEM", problem)
sys.exit(1 if problems else 0)
PY
}

run() {
  local start=$SECONDS killed=0 interrupted=0 runs=0 left
  full_disk
  while left=$((wanted - $(settled))) && ((left > 0 && SECONDS - start < limit_seconds)); do
    optimize "$left" "$scratch/run.json"
    disturb
    runs=$((runs + 1))
  done
  printf '%d runs, %d workers killed, %d interruptions, %d s\n' "$runs" "$killed" "$interrupted" $((SECONDS - start))
  judge
}

run 2>&1 | tee "$out/faults.txt"
exit "${PIPESTATUS[0]}"
