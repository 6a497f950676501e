// What the server's tests share: a directory, a machine, submissions, a judge that needs no device.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <condition_variable>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "../search/test_machine.h"
#include "serve/device_judge.h"
#include "serve/store.h"
#include "serve/submission.h"

namespace warpsmith::serve::testing {

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string name = (std::filesystem::temp_directory_path() / "warpsmith-serve-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("cannot create a temporary directory");
    path_ = name;
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

inline Site cpu_site() {
  Site site;
  site.machine = test_machine();
  site.threads = 2;
  site.most_flops = 1e11;
  return site;
}

inline Site cuda_site() {
  Site site;
  site.machine = machine_of_architecture("sm_90").value();
  site.target = Target::sm90;
  return site;
}

inline const char* const kProblem = "64x64x64 nn f16 f32";

// Submissions that differ in a run-time knob.
inline Submission numbered(int number) {
  static const int kBlocks[] = {8, 16, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 2048, 4096};
  const std::string recipe =
      "cpu block=" + std::to_string(1 << (number / 15 % 3)) + "xallx" + std::to_string(kBlocks[number % 15]);
  auto submission = read_submission({{"problem", kProblem}, {"recipe", recipe}}, cpu_site());
  if (!submission) throw std::runtime_error(submission.error().message);
  return *submission;
}

inline std::unique_ptr<Store> open_store(const std::filesystem::path& path, std::vector<std::string> devices = {"cpu"},
                                         const Site& site = cpu_site()) {
  auto store = Store::open(path, site, devices);
  if (!store) throw std::runtime_error(store.error().message);
  return std::move(*store);
}

inline Outcome accepted_outcome(double time_us = 10, double reference_us = 20) {
  Measurement measurement;
  measurement.subject = "candidate";
  measurement.cold.median_us = time_us;
  measurement.cold.samples = 9;
  Outcome outcome;
  outcome.verdict.outcome = verdict::Accepted{measurement};
  outcome.verdict.gates = {{"bound/normal", true, "", 0.25}, {"exact", true, "", 0}};
  outcome.reference_us = reference_us;
  outcome.reference = "openblas-sgemm-nn-1t";
  return outcome;
}

// What all judges of a test share; every call is counted by the candidate's name.
class Script {
 public:
  std::function<Result<Outcome>(const Job&)> answer = [](const Job&) { return accepted_outcome(); };

  // From now on judges wait until open() is called.
  void close() {
    const std::lock_guard lock(mutex_);
    open_ = false;
  }
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  std::vector<std::string> order() {
    const std::lock_guard lock(mutex_);
    return order_;
  }
  int count(const std::string& name) {
    const std::lock_guard lock(mutex_);
    return static_cast<int>(std::count(order_.begin(), order_.end(), name));
  }
  // Until so many have begun.
  void wait_for(std::size_t begun) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return order_.size() >= begun; });
  }

  Result<Outcome> judge(const Job& job) {
    {
      std::unique_lock lock(mutex_);
      order_.push_back(job.name);
      changed_.notify_all();
      changed_.wait(lock, [this] { return open_; });
    }
    return answer(job);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = true;
  std::vector<std::string> order_;
};

class ScriptedJudge final : public DeviceJudge {
 public:
  explicit ScriptedJudge(Script& script) : script_(script) {}
  CompiledCandidate compile(const Job&) const override { return {}; }
  Result<Outcome> judge(const Job& job, const CompiledCandidate&) override { return script_.judge(job); }

 private:
  Script& script_;
};

}  // namespace warpsmith::serve::testing
