// Device choice: the newest CUDA target that the GPU runs, else the CPU.
#include "devices.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <charconv>

#include "base/text.h"
#include "build_commit.h"

namespace warpsmith::cli {

namespace {

constexpr int kMostGpus = 64;

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

// "0,1,3". Error: bad_input.
Result<std::vector<int>> parse_gpus(const std::string& text) {
  std::vector<int> list;
  const auto wrong = [&] {
    return bad_input(fmt::format("--gpus '{}'; accepted: all, or device numbers such as 0,1", printable(text)));
  };
  for (std::size_t start = 0; start <= text.size();) {
    const std::size_t end = std::min(text.find(',', start), text.size());
    int number = -1;
    const auto [last, error] = std::from_chars(text.data() + start, text.data() + end, number);
    if (error != std::errc() || last != text.data() + end || number < 0 || number >= kMostGpus) return wrong();
    if (std::find(list.begin(), list.end(), number) != list.end()) return wrong();
    list.push_back(number);
    start = end + 1;
  }
  return list;
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

Result<std::vector<OpenDevice>> open_devices(const DeviceOptions& options, const std::string& gpus,
                                             std::uint64_t seed) {
  if (!gpus.empty() && options.target == "cpu") return bad_input("--gpus goes with a CUDA target");
  const bool all = gpus == "all";
  std::vector<int> numbers = {all ? 0 : options.device};
  if (!gpus.empty() && !all) {
    auto parsed = parse_gpus(gpus);
    if (!parsed) return parsed.error();
    numbers = std::move(*parsed);
  }
  std::vector<OpenDevice> devices;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    DeviceOptions one = options;
    one.device = numbers[i];
    // "auto" would take the CPU where there are no more of them.
    if (i > 0) one.target = std::string(to_string(devices.front().target));
    auto opened = open_device(one, seed);
    if (!opened && all && i > 0) break;  // there are no more
    if (!opened) return opened.error();
    if (!gpus.empty() && !is_cuda(opened->target)) {
      return bad_input(fmt::format("--gpus goes with a CUDA target: {}", opened->note));
    }
    if (all && static_cast<int>(numbers.size()) < kMostGpus) numbers.push_back(numbers.back() + 1);
    if (i > 0 && opened->evaluator->machine().id() != devices.front().evaluator->machine().id()) {
      if (all) continue;
      return bad_input(fmt::format("device {} is another type than device {}; use them apart", numbers[i], numbers[0]));
    }
    devices.push_back(std::move(*opened));
  }
  return devices;
}

Provenance provenance_of(const OpenDevice& device, const std::map<std::string, std::string>& compilers,
                         const std::string& mode, std::uint64_t seed) {
  const Machine& machine = device.evaluator->machine();
  Provenance provenance;
  provenance.device = machine.name;
  if (!is_cuda(device.target))
    provenance.device += fmt::format(", {} thread{}", device.threads, device.threads > 1 ? "s" : "");
  for (const auto& [name, version] : machine.versions) {
    std::string& member = name == "driver"         ? provenance.driver
                          : name == "cuda_runtime" ? provenance.cuda
                          : name == "cublaslt"     ? provenance.cublas
                                                   : provenance.other[name];
    member = version;
  }
  provenance.other.insert(compilers.begin(), compilers.end());
  provenance.other["warpsmith"] = WARPSMITH_VERSION;
  provenance.commit = kBuildCommit;
  provenance.mode = mode;
  provenance.seed = fmt::format("{}", seed);
  return provenance;
}

}  // namespace warpsmith::cli
