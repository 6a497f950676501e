// Runs a candidate on the unprotected harness, in a child process, and says whether the attack succeeds there.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/subprocess.h"
#include "catalogue.h"
#include "codegen/launch.h"

namespace warpsmith::attacks {

// What the harness's reader believes: its first line that is a JSON object.
struct NaiveAnswer {
  bool right = false;
  double time_us = 0, baseline_us = 0;
};

struct NaiveRun {
  ProcessOutput output;
  std::optional<NaiveAnswer> answer;
};

struct Effect {
  bool succeeded = false;
  std::string how;  // with numbers
  double seconds = 0;
};

// A candidate as the harness takes it: device source with its launch, or a library.
struct NaiveCandidate {
  std::vector<std::string> arguments;
  static NaiveCandidate library(const std::filesystem::path& path);
  // Writes the launches into `scratch`. `check_launch`: for the sizes at which results are checked, if they are others.
  static NaiveCandidate device(const std::filesystem::path& source, const std::string& arch, const CudaLaunch& launch,
                               const std::optional<CudaLaunch>& check_launch, const std::filesystem::path& scratch);
};

class Unprotected {
 public:
  // `scratch`: the harness's working directory.
  explicit Unprotected(std::filesystem::path scratch) : scratch_(std::move(scratch)) {}

  // `honest`: what the attack is derived from, for the time to beat; it is measured once per set of options. Only
  // attacks that are measured by a time must run one after the other.
  Effect attack(const Attack& attack, const NaiveCandidate& candidate, const NaiveCandidate& honest);
  // The compiler alone.
  Effect attack_compiler(const Attack& attack, const std::filesystem::path& source);

 private:
  NaiveRun run(const Attack& attack, const NaiveCandidate& candidate, double limit_seconds);
  NaiveRun run(const std::vector<std::string>& arguments, double limit_seconds);
  double honest_time_us(const Attack& attack, const NaiveCandidate& honest);
  Effect judge(const Attack& attack, const NaiveRun& run, double honest_us) const;

  std::filesystem::path scratch_;
  std::map<std::string, double> honest_us_;
};

}  // namespace warpsmith::attacks
