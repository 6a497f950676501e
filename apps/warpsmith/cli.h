// What all commands share: exit codes, problem and device options, the interrupt flag.
#pragma once

#include <CLI/CLI.hpp>
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "problem/problem.h"

namespace warpsmith::cli {

inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;  // the work was done and its answer is "no"
inline constexpr int kExitBadInput = 2;
inline constexpr int kExitEnvironment = 3;
inline constexpr int kExitInterrupted = 130;

// Prints the error as one line on stderr ("warpsmith: ...") and returns its exit code.
int report(const Error& error);

// Set by the first Ctrl-C or SIGTERM; a second one ends the process at once.
const std::atomic<bool>& interrupted();
void install_interrupt_handler();

// "60", "60s", "5m", "1h", "500ms" in seconds. Error: bad_input.
Result<double> parse_duration(const std::string& text);

// The shape and type options: `M N K`, `MxNxK` or --mnk M_N_K; --layout, --type, --acc.
struct ProblemOptions {
  std::vector<std::string> shape_words;
  std::string mnk;
  std::string layout = "nn";
  std::string element = "f16";
  std::string accumulator = "f32";
  bool scaled = false;
  std::string leading_dimensions;

  void add_to(CLI::App& command);
  // One problem, or NN and TN of it for `--layout both`.
  Result<std::vector<Problem>> problems() const;
  Result<std::vector<Problem>> problems_of(const std::vector<Shape>& shapes) const;
};

// Which device to work on: --target, --threads, --device.
struct DeviceOptions {
  std::string target = "auto";
  std::string threads = "all";
  int device = 0;

  void add_to(CLI::App& command);
};

// Each command adds itself to `app` and, when chosen, sets `run`.
using Run = std::function<int()>;
void add_optimize_command(CLI::App& app, Run& run);
void add_tune_command(CLI::App& app, Run& run);
void add_sweep_command(CLI::App& app, Run& run);
void add_bench_command(CLI::App& app, Run& run);
void add_info_command(CLI::App& app, Run& run);
void add_rank_command(CLI::App& app, Run& run);
void add_dataset_command(CLI::App& app, Run& run);
void add_train_command(CLI::App& app, Run& run);
void add_serve_command(CLI::App& app, Run& run);
void add_index_command(CLI::App& app, Run& run);
void add_audit_command(CLI::App& app, Run& run);
void add_pack_command(CLI::App& app, Run& run);
void add_export_command(CLI::App& app, Run& run);
void add_survey_command(CLI::App& app, Run& run);
void add_report_command(CLI::App& app, Run& run);

}  // namespace warpsmith::cli
