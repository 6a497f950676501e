// Measures the alternatives once per machine.
#include "evaluate/cpu/openblas_coretype.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/file.h"
#include "base/hash.h"
#include "base/paths.h"
#include "base/subprocess.h"
#include "evaluate/cpu/blas_library.h"
#include "evaluate/cpu/machine_facts.h"

namespace warpsmith {

namespace {

constexpr const char* kVariable = "OPENBLAS_CORETYPE";
constexpr int kRepeats = 12;
constexpr double kProbeSeconds = 10;

std::filesystem::path cache_file(const std::string& library) {
  const std::string key = HashInput().add(cpu_model_name()).add(library).hex().substr(0, 16);
  return cache_dir() / fmt::format("openblas-coretype-{}.json", key);
}

std::vector<std::optional<std::string>> alternatives() {
  std::vector<std::optional<std::string>> result = {std::nullopt, "SkylakeX", "Cooperlake", "Zen", "Haswell"};
  if (const char* inherited = std::getenv(kVariable); inherited != nullptr) {
    if (std::find(result.begin(), result.end(), std::string(inherited)) == result.end()) result.emplace_back(inherited);
  }
  return result;
}

// What this executable prints with `flag` under a core type; nothing when it fails (an instruction this CPU lacks).
std::optional<std::string> ask_child(const char* flag, const std::optional<std::string>& core_type) {
  ProcessRequest request;
  request.argv = {"/proc/self/exe", flag};
  std::error_code error;
  if (const auto self = std::filesystem::read_symlink("/proc/self/exe", error); !error) request.argv[0] = self.string();
  request.limits.wall_seconds = kProbeSeconds;
  request.environment = {{kVariable, core_type}};
  const auto output = run_process(request);
  if (!output || !output->status.success()) return std::nullopt;
  return output->out;
}

}  // namespace

std::optional<std::string> fastest_openblas_coretype() {
  const auto library = ask_child(kIdentifyFlag, std::nullopt);
  if (!library) return std::nullopt;
  const auto file = cache_file(*library);
  if (const auto text = read_file(file)) {
    const auto json = nlohmann::json::parse(*text, nullptr, false);
    if (json.is_object() && json.contains("core_type")) {
      const auto& value = json["core_type"];
      return value.is_string() ? std::optional(value.get<std::string>()) : std::nullopt;
    }
  }
  std::optional<std::string> best;
  double best_us = 0;
  nlohmann::json measured = nlohmann::json::object();
  for (const auto& core_type : alternatives()) {
    const auto answer = ask_child(kProbeFlag, core_type);
    const double time_us = answer ? std::strtod(answer->c_str(), nullptr) : 0;
    if (!(time_us > 0)) continue;
    measured[core_type.value_or("unset")] = time_us;
    if (best_us == 0 || time_us < best_us) {
      best_us = time_us;
      best = core_type;
    }
  }
  const nlohmann::json record = {{"core_type", best ? nlohmann::json(*best) : nlohmann::json()},
                                 {"mean_us", measured},
                                 {"library", *library},
                                 {"cpu", cpu_model_name()}};
  // A cache that cannot be written only means measuring again next time.
  [[maybe_unused]] const Status saved = write_file_atomic(file, record.dump(2) + "\n");
  return best;
}

int identify_openblas() {
  const auto library = open_openblas();
  if (!library) return 1;
  std::string text = (*library)->version();
  std::fputs(text.substr(0, text.find(" core ")).c_str(), stdout);
  return 0;
}

int probe_openblas() {
  clear_library_environment();
  const auto library = open_openblas();
  if (!library) return 1;
  (*library)->set_threads(1);
  double log_sum = 0;
  constexpr std::int64_t kSizes[] = {64, 192, 640};
  for (const std::int64_t size : kSizes) {
    const auto count = static_cast<std::size_t>(size * size);
    const std::vector<float> a(count, 0.7f), b(count, -0.3f);
    std::vector<float> c(count);
    double best = 1e30;
    for (int repeat = 0; repeat < kRepeats; ++repeat) {
      const auto start = std::chrono::steady_clock::now();
      (*library)->sgemm(false, size, size, size, a.data(), b.data(), c.data());
      best =
          std::min(best, std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count());
    }
    log_sum += std::log(best);
  }
  std::printf("%.6f\n", std::exp(log_sum / 3));
  return 0;
}

}  // namespace warpsmith
