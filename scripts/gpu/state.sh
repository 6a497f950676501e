# What one run on a GPU host leaves for the next: the archive, wisdom and compiled kernels, packed in a directory.
#   archive.sqlite.xz.NN   the archive, in pieces of at most 16 MiB
#   wisdom.jsonl           as it is
#   cache.tar.xz           compiled kernels, those that were made last and fit into 12 MiB
# Sourced after steps.sh; needs its variables.
# shellcheck shell=bash disable=SC2034,SC2154

readonly piece_bytes=$((16 << 20)) cache_bytes=$((12 << 20))
archive=$scratch/archive.sqlite
export XZ_OPT="-T0 -3"

# read_options ACCEPTED ARGUMENT...: `--NAME VALUE` for each NAME in ACCEPTED, separated by spaces, into the variable NAME;
# what follows `--` into the array options, other words into the array words. Ends the script with 2 at anything else.
read_options() {
  local accepted=" $1 " name script
  script=$(basename -- "$0" .sh)
  shift
  options=() words=()
  while (($#)); do
    name=${1#--}
    if [[ $1 == -- ]]; then
      shift
      options=("$@")
      break
    elif [[ $1 != -* ]]; then
      words+=("$1")
      shift
    elif [[ $1 == --* && $accepted == *" $name "* ]]; then
      if [[ -z ${2:-} ]]; then
        echo "$script: $1 needs a value" >&2
        exit 2
      fi
      printf -v "$name" %s "$2"
      shift 2
    else
      accepted=${accepted% }
      echo "$script: unknown option '$1'; accepted:${accepted// / --}" >&2
      exit 2
    fi
  done
  for name in limit final; do
    [[ -v $name ]] || continue
    if ! [[ ${!name} =~ ^[0-9]+$ ]]; then
      echo "$script: --$name ${!name}; accepted: whole seconds" >&2
      exit 2
    fi
  done
}

# no_words: ends the script with 2 where read_options found any.
no_words() {
  if ((${#words[@]})); then
    echo "$(basename -- "$0" .sh): unknown word '${words[0]}'" >&2
    exit 2
  fi
}

# unpack_state DIRECTORY: what is there; nothing is missed.
unpack_state() {
  local from=$1
  if compgen -G "$from/archive.sqlite.xz.*" >/dev/null; then
    cat "$from"/archive.sqlite.xz.* | xz -dc >"$archive" || return 3
    [[ ! -f $from/archive.sqlite-wal.xz ]] || xz -dc "$from/archive.sqlite-wal.xz" >"$archive-wal" || return 3
    printf 'archive: %d bytes brought along\n' "$(stat -c %s "$archive")"
  fi
  if [[ -f $from/wisdom.jsonl ]]; then
    [[ $from/wisdom.jsonl -ef $out/wisdom.jsonl ]] || cp "$from/wisdom.jsonl" "$out/wisdom.jsonl" || return 3
    printf 'wisdom: %d lines brought along\n' "$(wc -l <"$out/wisdom.jsonl")"
  fi
  if [[ -f $from/cache.tar.xz ]]; then
    mkdir -p "$WARPSMITH_CACHE" && tar -C "$WARPSMITH_CACHE" -xJf "$from/cache.tar.xz" || return 3
    printf 'compiled kernels: %d brought along\n' "$(find "$WARPSMITH_CACHE" -name manifest.json | wc -l)"
  fi
}

# known_times: an archive of the times in results/h200, where no archive was brought along.
known_times() {
  local table=$root/results/h200/replay.jsonl.xz
  [[ ! -f $archive && -f $table ]] || return 0
  xz -dc "$table" >"$scratch/known.jsonl" || return 3
  "$stage/warpsmith" dataset import --replay "$scratch/known.jsonl" --archive "$archive"
}

# pack_archive: into $out, in pieces.
pack_archive() {
  [[ -f $archive ]] || return 0
  # What a program that was killed had committed lies in the write-ahead log beside it.
  python3 -c 'import sqlite3, sys; sqlite3.connect(sys.argv[1]).execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()' "$archive" \
    || printf 'archive: its write-ahead log could not be merged; the log is packed beside it\n'
  rm -f -- "$out"/archive.sqlite.xz.* "$out/archive.sqlite-wal.xz"
  [[ ! -s $archive-wal ]] || xz -zc "$archive-wal" >"$out/archive.sqlite-wal.xz"
  xz -zc "$archive" | split -d -b "$piece_bytes" - "$out/archive.sqlite.xz."
  printf 'archive: %d bytes, packed %d in %d pieces\n' "$(stat -c %s "$archive")" \
    "$(cat "$out"/archive.sqlite.xz.* | wc -c)" "$(compgen -G "$out/archive.sqlite.xz.*" | wc -l)"
}

# pack_cache: whole entries, those that were made last.
pack_cache() {
  [[ -d $WARPSMITH_CACHE ]] || return 0
  local all keep
  all=$(find "$WARPSMITH_CACHE" -name manifest.json | wc -l)
  keep=$all
  while ((keep > 0)); do
    (cd "$WARPSMITH_CACHE" && find . -name manifest.json -printf '%T@ %h\n' | sort -rn | head -n "$keep" | cut -d' ' -f2- \
      | tar -cJf "$out/cache.tar.xz" -T -)
    (($(stat -c %s "$out/cache.tar.xz") <= cache_bytes)) && break
    keep=$((keep * 2 / 3))
  done
  printf 'compiled kernels: %d of %d packed\n' "$keep" "$all"
}
