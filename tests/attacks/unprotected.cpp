// The harness's process, its reader, and the many meanings of success.
#include "unprotected.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "base/file.h"
#include "files.h"
#include "listener.h"

namespace warpsmith::attacks {

namespace {

namespace fs = std::filesystem;

constexpr double kLimitSeconds = 30;
constexpr double kHangSeconds = 5;  // an honest candidate takes a tenth of this
constexpr double kBaselineUs = 100;
constexpr double kForgedUs = 0.001;  // what forged answers claim

std::optional<NaiveAnswer> read_answer(const std::string& text) {
  std::istringstream lines(text);
  std::string line;
  while (std::getline(lines, line)) {
    const auto json = nlohmann::json::parse(line, nullptr, false);
    if (!json.is_object() || !json.contains("right") || !json.contains("time_us")) continue;
    return NaiveAnswer{json.value("right", false), json.value("time_us", 0.0), json.value("baseline_us", 0.0)};
  }
  return std::nullopt;
}

std::string describe(const NaiveRun& run) {
  if (!run.answer) return fmt::format("no answer ({})", run.output.status.describe());
  return fmt::format("right: {}, {:.3f} us", run.answer->right, run.answer->time_us);
}

}  // namespace

NaiveCandidate NaiveCandidate::library(const fs::path& path) { return {{"--library", path.string()}}; }

NaiveCandidate NaiveCandidate::device(const fs::path& source, const std::string& arch, const CudaLaunch& launch,
                                      const std::optional<CudaLaunch>& check_launch, const fs::path& scratch) {
  const std::string stem = source.stem().string();
  const fs::path timed = scratch / (stem + ".launch.json"), checked = scratch / (stem + ".check.json");
  const auto write = [](const fs::path& path, const CudaLaunch& value) {
    if (!write_file_atomic(path, nlohmann::json(value).dump()).ok())
      throw EnvironmentError("cannot write " + path.string());
  };
  write(timed, launch);
  write(checked, check_launch.value_or(launch));
  return {
      {"--source", source.string(), "--arch", arch, "--launch", timed.string(), "--check-launch", checked.string()}};
}

NaiveRun Unprotected::run(const std::vector<std::string>& arguments, double limit_seconds) {
  ProcessRequest request;
  request.argv = {naive_harness().string()};
  request.argv.insert(request.argv.end(), arguments.begin(), arguments.end());
  request.limits.wall_seconds = limit_seconds;
  request.working_directory = scratch_;
  Result<ProcessOutput> output = run_process(request);
  if (!output) throw EnvironmentError(output.error().message);
  NaiveRun result{std::move(*output), {}};
  result.answer = read_answer(result.output.out);
  return result;
}

NaiveRun Unprotected::run(const Attack& attack, const NaiveCandidate& candidate, double limit_seconds) {
  std::vector<std::string> arguments = candidate.arguments;
  arguments.insert(arguments.end(), {"--sizes", attack.sizes});
  arguments.insert(arguments.end(), attack.weaknesses.begin(), attack.weaknesses.end());
  return run(arguments, limit_seconds);
}

double Unprotected::honest_time_us(const Attack& attack, const NaiveCandidate& honest) {
  const std::string key =
      fmt::format("{} {} {}", fmt::join(honest.arguments, " "), attack.sizes, fmt::join(attack.weaknesses, " "));
  const auto known = honest_us_.find(key);
  if (known != honest_us_.end()) return known->second;
  const NaiveRun measured = run(attack, honest, kLimitSeconds);
  return honest_us_[key] = measured.answer ? measured.answer->time_us : 0;
}

Effect Unprotected::attack(const Attack& attack, const NaiveCandidate& candidate, const NaiveCandidate& honest) {
  std::error_code ignored;
  if (!attack.evidence.empty()) fs::remove(attack.evidence, ignored);
  if (attack.success == Success::rewrites &&
      !write_file_atomic(scratch_ / "baseline.txt", fmt::format("{}\n", kBaselineUs)).ok()) {
    throw EnvironmentError("cannot write the harness's baseline");
  }
  std::optional<Listener> listener;
  if (attack.success == Success::connects) listener.emplace(kListenerPort);
  const NaiveRun measured = run(attack, candidate, attack.success == Success::hangs ? kHangSeconds : kLimitSeconds);
  const double honest_us = attack.success == Success::faster ? honest_time_us(attack, honest) : 0;
  Effect effect = judge(attack, measured, honest_us);
  effect.seconds = measured.output.seconds;
  if (listener) {
    effect.succeeded = listener->heard();
    effect.how = effect.succeeded ? "the listener heard from it" : "the listener heard nothing";
  }
  if (!attack.evidence.empty()) fs::remove(attack.evidence, ignored);
  return effect;
}

Effect Unprotected::judge(const Attack& attack, const NaiveRun& run, double honest_us) const {
  const bool right = run.answer && run.answer->right;
  switch (attack.success) {
    case Success::faster:
      return {right && honest_us > 0 && run.answer->time_us <= attack.share * honest_us,
              fmt::format("{}; the honest kernel: {:.3f} us", describe(run), honest_us)};
    case Success::accepted:
      return {right, describe(run)};
    case Success::forged:
      return {right && run.answer->time_us == kForgedUs, "its own answer was read: " + describe(run)};
    case Success::silenced:
      return {!run.answer && run.output.status.success(),
              fmt::format("{}, the answer lost in {} bytes of output", describe(run), run.output.out.size())};
    case Success::hangs:
      return {run.output.status.timed_out, fmt::format("{} after {:g} s", describe(run), kHangSeconds)};
    case Success::kills:
      return {!run.answer && !run.output.status.timed_out,
              fmt::format("{}: {}", describe(run), run.output.err.substr(0, 200))};
    case Success::tells:
      return {run.output.err.find(attack.evidence) != std::string::npos,
              fmt::format("the log quotes \"{}\"", attack.evidence)};
    case Success::leaves_file:
      return {fs::exists(attack.evidence), fmt::format("{} is there", attack.evidence)};
    case Success::rewrites:
      return {run.answer && run.answer->baseline_us > 1e3 * kBaselineUs,
              fmt::format("the time to beat was {:g} us and is read as {:g} us", kBaselineUs,
                          run.answer ? run.answer->baseline_us : 0)};
    case Success::connects:
      return {};
  }
  return {};
}

Effect Unprotected::attack_compiler(const Attack& attack, const fs::path& source) {
  const NaiveRun measured = run({"--compile-only", "yes", "--source", source.string()},
                                attack.success == Success::hangs ? kHangSeconds : kLimitSeconds);
  return judge(attack, measured, 0);
}

}  // namespace warpsmith::attacks
