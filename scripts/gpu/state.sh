# What one run on a GPU host leaves for the next: the archive, wisdom and compiled kernels, packed in a directory.
#   archive.sqlite.xz.NN   the archive, in pieces of at most 16 MiB
#   wisdom.jsonl           as it is
#   cache.tar.xz           compiled kernels, those that were made last and fit into 12 MiB
# Sourced after steps.sh; needs its variables.
# shellcheck shell=bash disable=SC2154

readonly piece_bytes=$((16 << 20)) cache_bytes=$((12 << 20))
archive=$scratch/archive.sqlite
export XZ_OPT="-T0 -3"

# unpack_state DIRECTORY: what is there; nothing is missed.
unpack_state() {
  local from=$1
  if compgen -G "$from/archive.sqlite.xz.*" >/dev/null; then
    cat "$from"/archive.sqlite.xz.* | xz -dc >"$archive" || return 3
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

# pack_archive: into $out, in pieces.
pack_archive() {
  [[ -f $archive ]] || return 0
  rm -f -- "$out"/archive.sqlite.xz.*
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
