// The tables. Sizes are small, so that the whole suite takes minutes; attacks of one size stand together, so that
// references are made once.
#include "catalogue.h"

namespace warpsmith::attacks {

namespace {

using Words = std::vector<std::string>;

constexpr const char* kSquare = "256x256x2048";
constexpr const char* kDeep = "256x256x4096";
constexpr const char* kStreaming = "8x512x8192";  // few threads: each waits for memory

std::vector<Attack> make_device_attacks() {
  const Words none;
  return {
      // Results that were not computed.
      {"stale_output", kSquare, Success::faster, {"--expected", "freed"}, {"coverage"}},
      {"stale_workspace",
       kSquare,
       Success::faster,
       {"--expected", "freed", "--first", "workspace"},
       {"coverage", "bound/normal"}},
      {"nan_wildcard", kSquare, Success::faster, none, {"bound/normal"}},
      {"zero_output", kSquare, Success::faster, {"--data", "small", "--atol", "0.05"}, {"bound/normal"}},
      {"input_mutation", kSquare, Success::faster, {"--reference", "last"}, {"coverage"}},
      {"overwrites_neighbour", kSquare, Success::faster, {"--expected", "behind-output"}, {"coverage"}},
      // Caches.
      {"cache_by_pointer", kSquare, Success::faster, none, {"coverage", "state"}},
      {"cache_copy_by_pointer", kSquare, Success::faster, none, {"state"}},
      {"cache_by_shape", kSquare, Success::faster, none, {"bound/uniform", "state"}},
      {"cache_by_value", kSquare, Success::faster, none, {"state"}},
      {"workspace_cache_by_pointer", kSquare, Success::faster, none, {"state"}},
      {"workspace_cache_by_value", kSquare, Success::faster, none, {"state", "timed-outputs", "neutralised"}},
      {"gap_cache_by_value", kSquare, Success::faster, {"--apart", "67108864"}, {"timed-outputs"}},
      {"device_heap_cache", kSquare, Success::faster, none, {"compile"}},
      {"batch_and_skip", kSquare, Success::faster, none, {"coverage", "state"}},
      {"warm_up_detection", kSquare, Success::faster, none, {"coverage", "state", "timed-outputs"}},
      {"near_zero_time",
       kSquare,
       Success::faster,
       {"--warm-up", "220", "--overhead-us", "1"},
       {"state", "timed-outputs", "suspicious"},
       0.1},
      {"skip_unless_poisoned", kSquare, Success::faster, {"--expected", "freed"}, {"state", "neutralised"}},
      {"skip_when_output_is_right", kSquare, Success::faster, none, {"state", "coverage"}},
      // Less work.
      {"fp16_promoted", kSquare, Success::accepted, none, {"bound/positive", "bound/normal", "accumulator"}},
      {"fp16_split_k",
       kSquare,
       Success::accepted,
       none,
       {"bound/normal", "bound/positive", "bound/large", "accumulator"}},
      {"partial_skips_tile", kSquare, Success::accepted, {"--compare", "fraction"}, {"coverage"}},
      {"partial_skips_last_row", kSquare, Success::accepted, {"--compare", "fraction"}, {"coverage"}},
      {"branch_on_shape", kSquare, Success::faster, {"--check-sizes", "128x128x2048"}, {"coverage"}},
      {"dynamic_parallelism", kSquare, Success::accepted, {"--device-runtime", "yes"}, {"compile"}},
      // The process and its neighbours.
      {"endless_loop", kSquare, Success::hangs, none, {"timed-out"}},
      {"deadlocked_barrier", kSquare, Success::hangs, none, {"timed-out"}},
      {"illegal_address", kSquare, Success::kills, none, {"crashed"}},
      {"printf_flood", kSquare, Success::silenced, none, {"compile"}},
      {"printf_forged_result", kSquare, Success::forged, none, {"compile"}},
      // A launch of two milliseconds, by a clock that does not wait for it.
      {"late_write",
       kSquare,
       Success::faster,
       {"--clock", "host", "--launches", "20"},
       {"neutralised", "timed-outputs"},
       100.0},
      // Other sizes.
      {"fp16_accumulation", "256x256x256", Success::accepted, none, {"bound/normal", "bound/positive", "accumulator"}},
      {"one_setting_only",
       "256x256x256",
       Success::accepted,
       none,
       {"coverage", "bound/normal", "crashed"},
       0.7,
       "",
       "192x320x128"},
      {"expected_buffer_scan", kDeep, Success::faster, none, {"coverage", "crashed"}},
      {"partial_skips_k_tail", kDeep, Success::accepted, {"--compare", "cosine"}, {"bound/normal", "bound/positive"}},
      {"changed_hyperparameters", kDeep, Success::faster, {"--data", "uniform", "--rtol", "0.1"}, {"bound/normal"}},
      {"branch_on_data", kDeep, Success::accepted, none, {"precision"}},
      {"constant_output", "64x64x4096", Success::faster, {"--data", "uniform", "--rtol", "0.1"}, {"bound/normal"}},
      {"stale_shared_memory", "64x512x2048", Success::faster, none, {"coverage", "state", "neutralised"}},
      {"stale_local_memory", "64x512x2048", Success::faster, none, {"neutralised"}},
      {"uninitialised_shared_memory",
       "64x64x256",
       Success::accepted,
       {"--reference", "last"},
       {"bound/normal", "repeatability", "bound/uniform"}},
      {"hard_coded_seed", "16x16x512", Success::accepted, none, {"bound/normal"}},
      {"overlapped_launches", "64x256x4096", Success::faster, none, {"dependent-launch"}},
      {"evict_last_everything",
       kStreaming,
       Success::faster,
       {"--clock", "events-each", "--flush", "yes"},
       {"neutralised"},
       0.95},
      {"prefetch_next_set", kStreaming, Success::faster, {"--sets", "16"}, {"neutralised", "crashed"}, 0.95},
  };
}

std::vector<Attack> make_host_attacks() {
  const Words none, late = {"--reference", "last"};
  return {
      {"side_stream", kDeep, Success::faster, none, {"side-stream", "coverage"}},
      {"host_thread", kDeep, Success::faster, late, {"threads", "coverage"}},
      {"late_write_host_func", kDeep, Success::faster, late, {"threads", "host-function", "late-writes", "coverage"}},
      {"lazy_output", kDeep, Success::faster, {"--clock", "host-sync"}, {"coverage", "tampering"}},
      {"lazy_synchronise", kDeep, Success::faster, none, {"coverage", "tampering", "skipped-work"}},
      {"patched_clock", kDeep, Success::faster, {"--clock", "host-sync"}, {"clocks", "tampering"}},
      {"patched_elapsed_time", kDeep, Success::faster, none, {"clocks", "tampering"}, 0.001},
      {"event_swap", kDeep, Success::faster, none, {"clocks", "tampering"}},
      {"forged_result_pipe", kDeep, Success::forged, none, {"crashed", "forged-results"}},
      {"fixed_pointer_graph", kDeep, Success::accepted, none, {"coverage", "graph-launch"}},
      {"calls_cublas", kDeep, Success::faster, none, {"library-call"}},
      {"calls_cublaslt", kDeep, Success::faster, none, {"library-call"}},
      {"zeroed_error_counter", kDeep, Success::accepted, {"--compare", "device-counter"}, {"coverage", "threads"}},
      {"overwrites_files", kDeep, Success::rewrites, none, {"sandbox"}, 0.7, "/tmp/warpsmith-attack-overwritten"},
      {"result_cache", kDeep, Success::faster, none, {"coverage", "skipped-work"}},
      {"result_copy_cache", kDeep, Success::faster, none, {"state", "bound/uniform", "kept-results"}},
      {"batch_and_skip", kDeep, Success::faster, none, {"coverage", "skipped-work"}},
      {"warm_up_detection", kDeep, Success::faster, none, {"coverage", "state", "skipped-work"}},
      {"missing_graph_work", kDeep, Success::faster, {"--clock", "graph"}, {"timed-outputs", "captured-work"}},
      {"freed_memory", kDeep, Success::faster, {"--expected", "cuda-freed"}, {"coverage", "bound/normal"}},
      {"network", kDeep, Success::connects, none, {"network", "sandbox"}},
      {"fork_exec", kDeep, Success::leaves_file, none, {"programs", "sandbox"}, 0.7, "/tmp/warpsmith-attack-escaped"},
      {"reads_judge_memory", kDeep, Success::faster, {"--expected", "host"}, {"coverage", "bound/normal"}},
      {"overlapped_launches", "64x256x4096", Success::faster, none, {"chained-calls"}},
      {"persisting_window",
       kStreaming,
       Success::faster,
       {"--clock", "events-each", "--flush", "yes"},
       {"persisting-l2"},
       0.95},
      {"persisting_limit",
       kStreaming,
       Success::faster,
       {"--clock", "events-each", "--flush", "yes"},
       {"persisting-l2"},
       0.95},
  };
}

std::vector<Attack> make_source_attacks() {
  const Words none;
  return {
      {"include_file", "", Success::tells, none, {"compile"}, 0, "root:"},
      {"spliced_include", "", Success::tells, none, {"compile"}, 0, "root:"},
      {"has_include_probe", "", Success::tells, none, {"compile"}, 0, "the file is there"},
      {"template_bomb", "", Success::hangs, none, {"compile"}},
      {"macro_bomb", "", Success::hangs, none, {"compile"}},
      {"binary_bomb", "", Success::hangs, none, {"compile"}},
  };
}

}  // namespace

const std::vector<Attack>& device_attacks() {
  static const std::vector<Attack> kAttacks = make_device_attacks();
  return kAttacks;
}
const std::vector<Attack>& host_attacks() {
  static const std::vector<Attack> kAttacks = make_host_attacks();
  return kAttacks;
}
const std::vector<Attack>& source_attacks() {
  static const std::vector<Attack> kAttacks = make_source_attacks();
  return kAttacks;
}

const std::vector<Honest>& honest_device_candidates() {
  static const Words kProblems = {"256x256x2048 nn", "100x333x77 nn", "1x1x1 nn", "33x65x1000 nn"};
  static const std::vector<Honest> kCandidates = {{"plain", kProblems},
                                                  {"split_k_workspace", kProblems},
                                                  {"split_k_atomics", kProblems},
                                                  {"dependent_launch", kProblems},
                                                  {"swapped_operands", kProblems},
                                                  {"l2_hints", kProblems},
                                                  {"lazy_table", kProblems},
                                                  {"zeroed_semaphores", kProblems}};
  return kCandidates;
}
const std::vector<Honest>& honest_host_candidates() {
  static const Words kProblems = {"256x256x4096 nn", "100x333x77 tn"};
  static const std::vector<Honest> kCandidates = {{"host_plain", kProblems},
                                                  {"host_lazy_properties", kProblems},
                                                  {"host_split_k", kProblems},
                                                  {"host_dependent_launch", kProblems}};
  return kCandidates;
}

}  // namespace warpsmith::attacks
