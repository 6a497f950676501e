#!/usr/bin/env bash
# Installs what building warpsmith needs, and nothing when all of it is there. The one place that lists packages.
#   scripts/install-deps.sh run|test|ci [--check]
# run: what ./run needs; test: also GoogleTest and a browser; ci: also the tools of the style checks. --check only reports.
# Exit codes: 0 all there, 3 something is missing and cannot be installed from here (its names are printed).
set -euo pipefail

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)
what=${1:-run}
mode=${2:-install}
case $what in run | test | ci) ;; *) echo "install-deps.sh: '$what' is none of run, test, ci" >&2 && exit 2 ;; esac

# Package of Debian 12, Ubuntu 22.04 and 24.04 | how to see that it is there | what it is | optional.
# "command:X" is a program on PATH, "header:X" an include that compiles, "library:X" known to the loader (loaded at run
# time), "browser" any Chromium. An optional one is a baseline that comparisons leave out where it is missing, or the
# browser or the LibTorch without which the tests of the HTML report or of training are not run.
requirements=(
  'g++|compiler|a C++20 compiler (GCC 11 or newer)'
  'cmake|cmake|CMake 3.22 or newer'
  'ninja-build|command:ninja|Ninja'
  'libfmt-dev|header:fmt/core.h|fmt'
  'nlohmann-json3-dev|header:nlohmann/json.hpp|nlohmann-json 3.10 or newer'
  'libcli11-dev|header:CLI/CLI.hpp|CLI11'
  'libsqlite3-dev|header:sqlite3.h|SQLite 3'
  'libssl-dev|header:openssl/evp.h|OpenSSL 3'
  'libtomlplusplus-dev|header:toml++/toml.h|toml++'
  'libcurl4-openssl-dev|header:curl/curl.h|libcurl'
  'libboost-dev|header:boost/beast/http.hpp|Boost 1.74 or newer (headers)'
  'libopenblas0-pthread|library:libopenblas.so.0|OpenBLAS|optional'
  'libdnnl-dev|header:oneapi/dnnl/dnnl.hpp|oneDNN|optional'
)
if [[ $what == test || $what == ci ]]; then
  requirements+=('libgtest-dev|header:gtest/gtest.h|GoogleTest' 'chromium-headless-shell|browser|Chromium|optional')
fi
if [[ $what == ci ]]; then
  requirements+=('libtorch-dev|header:c10/util/Exception.h|LibTorch|optional')
  requirements+=('clang-format|command:clang-format|clang-format' 'shellcheck|command:shellcheck|ShellCheck')
fi

compiler=${CXX:-$(command -v c++ || command -v g++ || command -v clang++ || true)}

compiles() { printf '%s\n' "$1" | $compiler -std=c++20 -E -x c++ - >/dev/null 2>&1; }

is_there() {
  case $1 in
    compiler) [[ -n $compiler ]] && compiles '#include <source_location>' ;;
    cmake)
      command -v cmake >/dev/null || return 1
      local version
      version=$(cmake --version | sed -n 's/^cmake version \([0-9.]*\).*/\1/p')
      [[ $(printf '3.22\n%s\n' "$version" | sort -V | head -n 1) == 3.22 ]]
      ;;
    browser) command -v chromium-headless-shell chromium google-chrome >/dev/null ;;
    command:*) command -v "${1#command:}" >/dev/null ;;
    library:*) [[ $(/sbin/ldconfig -p 2>/dev/null) == *"${1#library:}"* ]] ;;
    header:*) [[ -n $compiler ]] && compiles "#include <${1#header:}>" ;;
  esac
}

packages=()  # missing and required
meanings=()
optional=()  # missing and optional
for requirement in "${requirements[@]}"; do
  IFS='|' read -r package probe meaning kind <<<"$requirement"
  if is_there "$probe"; then continue; fi
  if [[ $kind == optional ]]; then
    optional+=("$package")
  else
    packages+=("$package")
    meanings+=("$meaning")
  fi
done
if [[ $mode == --check ]]; then optional=(); fi
if ((${#packages[@]} + ${#optional[@]} == 0)); then exit 0; fi

distribution=unknown
if [[ -r /etc/os-release ]]; then
  # shellcheck source=/dev/null
  distribution=$(. /etc/os-release && printf '%s %s' "${ID:-unknown}" "${VERSION_ID:-}")
fi
wanted=("${packages[@]}" "${optional[@]}")
command_line="apt-get install -y --no-install-recommends ${wanted[*]}"

stop() {  # stop LINE...: says what to do and gives up, unless only optional packages are missing
  if ((${#packages[@]} == 0)); then exit 0; fi
  printf '%s\n' "$@" >&2
  exit 3
}

case $distribution in
  'debian 12' | 'ubuntu 22.04' | 'ubuntu 24.04') ;;
  debian* | ubuntu*)
    stop "warpsmith: packages are missing. This is not Debian 12, Ubuntu 22.04 or 24.04, so they are not installed for you; try" \
      "  sudo $command_line"
    ;;
  *)
    stop "warpsmith: missing on this system ($distribution), each with its headers:" "${meanings[@]/#/  }" \
      "Install them with the system's package manager and run this again (on Debian: $command_line)."
    ;;
esac
[[ $mode == --check ]] && stop "warpsmith: missing packages: ${packages[*]}"

as_root=()
if ((EUID != 0)); then
  if command -v sudo >/dev/null && { [[ -t 0 ]] || sudo -n true 2>/dev/null; }; then
    as_root=(sudo)
  else
    stop "warpsmith: packages are missing and this user may not install them. As root:" "  $command_line"
  fi
fi

log=$root/build/install.log
mkdir -p "$root/build" 2>/dev/null || log=/dev/null
: >"$log" 2>/dev/null || log=/dev/null
apt() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -y -q -o DPkg::Lock::Timeout=300 "$@" >>"$log" 2>&1 </dev/null; }
install() { apt install --no-install-recommends "${wanted[@]}"; }

if ((${#as_root[@]})) && ! sudo -n true 2>/dev/null; then
  sudo -v -p 'warpsmith: %u'\''s password, to install packages: ' || stop "warpsmith: as root:" "  $command_line"
fi
# Package lists are fetched only where there are none, or where they turn out to be too old.
if ! compgen -G '/var/lib/apt/lists/*_Packages*' >/dev/null; then
  printf 'warpsmith: fetching package lists\n' >&2
  apt update || true
fi
wanted=("${packages[@]}")
for package in "${optional[@]}"; do
  if apt-cache show "$package" >/dev/null 2>&1; then wanted+=("$package"); fi
done
if ((${#wanted[@]} == 0)); then exit 0; fi
printf 'warpsmith: installing %s ... ' "${wanted[*]}" >&2
start=$SECONDS
if ! install && ! { apt update && install; }; then
  printf 'failed\n' >&2
  tail -n 15 "$log" >&2
  stop "warpsmith: apt-get could not install them (whole log: $log). By hand:" "  $command_line"
fi
printf 'done in %d s\n' "$((SECONDS - start))" >&2
exec "$0" "$what" --check  # what apt installed must also be found
