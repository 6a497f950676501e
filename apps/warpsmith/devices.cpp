// Device choice: the newest CUDA target that the GPU runs, else the CPU.
#include "devices.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <charconv>

#include "base/text.h"

namespace warpsmith::cli {

namespace {

Result<int> parse_threads(const std::string& text) {
  const int available = available_threads();
  if (text == "all") return available;
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 1 || value > available) {
    return bad_input(fmt::format("--threads '{}'; accepted: 1 to {}, or all", printable(text), available));
  }
  return value;
}

Result<std::unique_ptr<Evaluator>> start(Target target, int threads, int device, std::uint64_t seed) {
  EvaluatorOptions options;
  options.target = target;
  options.threads = threads;
  options.device = device;
  options.seed = seed;
  return Evaluator::start(options);
}

Result<OpenDevice> open_cuda(const DeviceOptions& options, Target target, std::uint64_t seed) {
  auto evaluator = start(target, 1, options.device, seed);
  if (!evaluator) return evaluator.error();
  const int capability = (*evaluator)->machine().compute_capability;
  const int needed = target == Target::sm90 ? 90 : 80;
  // wgmma and TMA code of sm_90a runs on compute capability 9.0 alone; sm_80 code runs on everything later.
  if (capability < needed || (target == Target::sm90 && capability != 90)) {
    return environment_error(fmt::format("target {} needs a GPU of compute capability {}.{}{}; {} has {}.{}",
                                         to_string(target), needed / 10, needed % 10,
                                         target == Target::sm90 ? "" : " or later", (*evaluator)->machine().name,
                                         capability / 10, capability % 10));
  }
  return OpenDevice{target, 1, std::move(*evaluator), {}};
}

// The newest target that the GPU runs, else the CPU.
Result<OpenDevice> open_best(const DeviceOptions& options, int threads, std::uint64_t seed) {
  auto cuda = open_cuda(options, Target::sm80, seed);
  if (cuda) {
    if (cuda->evaluator->machine().compute_capability == 90) cuda->target = Target::sm90;
    return cuda;
  }
  auto evaluator = start(Target::cpu, threads, 0, seed);
  if (!evaluator) return evaluator.error();
  return OpenDevice{Target::cpu, threads, std::move(*evaluator), cuda.error().message};
}

}  // namespace

int available_threads() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

Result<OpenDevice> open_device(const DeviceOptions& options, std::uint64_t seed) {
  const auto threads = parse_threads(options.threads);
  if (!threads) return threads.error();
  if (options.device < 0) return bad_input(fmt::format("--device {}; accepted: 0 or more", options.device));
  if (options.target == "auto") return open_best(options, *threads, seed);
  const auto target = parse_target(options.target);
  if (!target)
    return bad_input(
        fmt::format("unknown target '{}'; accepted: auto, cpu, sm80, sm90, replay:FILE", printable(options.target)));
  if (is_cuda(*target)) return open_cuda(options, *target, seed);
  auto evaluator = start(Target::cpu, *threads, 0, seed);
  if (!evaluator) return evaluator.error();
  return OpenDevice{Target::cpu, *threads, std::move(*evaluator), {}};
}

}  // namespace warpsmith::cli
