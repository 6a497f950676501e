# Functions that ./run and ./test share: configure and build a preset, but only when something changed. Sourced, with
# `root` set to the repository's root.
# shellcheck shell=bash disable=SC2154

# parallel_jobs: as many compilers as there are cores, and as fit into memory at 1 GiB each.
parallel_jobs() {
  local cores memory
  cores=$(nproc)
  memory=$(awk '/^MemAvailable:/ {print int($2 / 1048576)}' /proc/meminfo)
  ((memory >= 1)) || memory=1
  echo $((cores < memory ? cores : memory))
}

# fingerprint PRESET FOLDER...: of everything a build depends on: names, sizes and times of the files (so that an added,
# removed or edited file and a git checkout all count), the place of the tree, and the compilers.
fingerprint() {
  local preset=$1 nvcc
  shift
  nvcc=$(PATH="$PATH:/usr/local/cuda/bin" command -v nvcc || true)
  {
    printf '%s\n' "$preset" "$root" "${CXX:-}" "${CXXFLAGS:-}" "$nvcc"
    cd "$root" && find CMakeLists.txt CMakePresets.json cmake "$@" -type f ! -name '.*' -printf '%p %s %T@\n' | LC_ALL=C sort
    find -L "$(command -v "${CXX:-c++}" || echo /usr/bin/c++)" ${nvcc:+"$nvcc"} -maxdepth 0 -printf '%p %s %T@\n' 2>/dev/null || true
  } | sha256sum | cut -d ' ' -f 1
}

# show_progress NAME LOG: copies ninja's output to LOG; on a terminal one line is kept up to date.
show_progress() {
  if [[ -t 2 ]]; then
    local line
    while IFS= read -r line; do
      printf '%s\n' "$line" >>"$2"
      [[ $line == \[*/*\]* ]] && printf '\r\033[Kwarpsmith: building %s %s' "$1" "${line%%]*}]" >&2
    done
    printf '\r\033[K' >&2
  else
    cat >>"$2"
  fi
}

# show_failure LOG: the first error with what follows it, else the log's end.
show_failure() {
  local first
  first=$(grep -n -m 1 -E '^FAILED:|^CMake Error|: (fatal )?error:' "$1" | cut -d : -f 1 || true)
  tail -n "+${first:-1}" "$1" | if [[ -n $first ]]; then head -n 40; else tail -n 40; fi >&2
  printf 'warpsmith: the build failed; whole log: %s\n' "$1" >&2
}

# build PRESET DEPS FOLDER...: leaves build/PRESET up to date, or returns non-zero after saying why. DEPS is the list of
# packages to install first (see install-deps.sh), FOLDERs hold the sources. The array `targets`, where it is set, names
# the only targets wanted.
build() {
  local preset=$1 deps=$2
  local tree=$root/build/$preset
  local log=$tree/build.log stamp=$tree/.built now start=$SECONDS
  shift 2
  now=$(fingerprint "$preset" "$@")
  if [[ -r $stamp && $(<"$stamp") == "$now" ]]; then return 0; fi

  "$root/scripts/install-deps.sh" "$deps" || return
  if ! mkdir -p "$tree" 2>/dev/null || [[ ! -w $tree ]]; then
    printf 'warpsmith: cannot write %s, which the build needs\n' "$tree" >&2
    return 3
  fi
  exec 9>"$root/build/.lock"
  if ! flock -n 9; then
    printf 'warpsmith: another build runs in this tree; waiting for it\n' >&2
    flock 9
  fi
  now=$(fingerprint "$preset" "$@")  # with the packages there now; taken before the build: an edit during it counts
  if [[ -r $stamp && $(<"$stamp") == "$now" ]]; then exec 9>&- && return 0; fi

  # A tree that was moved or copied, or whose compilers changed, starts afresh.
  local home
  home=$(sed -n 's/^CMAKE_HOME_DIRECTORY:INTERNAL=//p' "$tree/CMakeCache.txt" 2>/dev/null || true)
  if [[ -n $home && $home != "$root" ]]; then
    rm -rf -- "$tree" && mkdir -p "$tree"
  fi
  rm -f -- "$stamp"
  : >"$log"
  # ccache is of no use where it cannot write.
  if [[ ! -w ${CCACHE_DIR:-${HOME:-/nonexistent}} ]]; then export CCACHE_DISABLE=1; fi
  local status=0
  [[ -t 2 ]] && printf 'warpsmith: configuring %s' "$preset" >&2
  (cd "$root" && cmake --preset "$preset") >>"$log" 2>&1 9>&- || status=$?
  [[ -t 2 ]] && printf '\r\033[K' >&2
  if ((status == 0)); then
    [[ -t 2 ]] || printf 'warpsmith: building %s (log: %s)\n' "$preset" "$log" >&2
    (cd "$root" && exec cmake --build "$tree" --parallel "$(parallel_jobs)" ${targets:+--target "${targets[@]}"}) 2>&1 9>&- | show_progress "$preset" "$log" || status=$?
  fi
  exec 9>&-
  if ((status != 0)); then
    show_failure "$log"
    return 1
  fi
  printf '%s' "$now" >"$stamp"
  printf 'warpsmith: built %s in %d s\n' "$preset" "$((SECONDS - start))" >&2
}
