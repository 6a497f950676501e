// Every attack in device code: it succeeds on the unprotected harness, and the evaluator stops it. Honest candidates
// are accepted. Needs a CUDA device.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <map>

#include "../compile/test_directory.h"
#include "cases.h"
#include "catalogue.h"
#include "evaluated.h"
#include "files.h"
#include "results.h"
#include "unprotected.h"

namespace warpsmith::attacks {

namespace {

Problem problem_of(const std::string& text) { return parse_problem(text).value(); }

// One evaluator, one scratch directory for all cases.
class Laboratory {
 public:
  Laboratory() {
    if (!evaluated) return;
    std::vector<std::filesystem::path> sources;
    for (const Attack& attack : device_attacks()) sources.push_back(device_source(attack.name));
    for (const Honest& honest : honest_device_candidates()) sources.push_back(honest_source(honest.name));
    (*evaluated)->compile_ahead(sources, problem_of("256x256x256 nn"));
    run_untimed();
  }

  Effect unprotected(const Attack& attack) {
    const auto known = untimed_.find(attack.name);
    return known != untimed_.end() ? known->second : run_unprotected(attack);
  }

  const TestDirectory scratch;
  const Result<std::unique_ptr<Evaluated>> evaluated = Evaluated::start(scratch.path() / "cache");

 private:
  // Attacks whose success is no matter of time need not wait for each other.
  void run_untimed() {
    std::vector<std::pair<std::string, std::future<Effect>>> running;
    for (const Attack& attack : device_attacks()) {
      if (attack.success == Success::faster) continue;
      running.emplace_back(attack.name, std::async(std::launch::async, [&] { return run_unprotected(attack); }));
    }
    for (auto& [name, effect] : running) untimed_[name] = effect.get();
  }

  Effect run_unprotected(const Attack& attack) {
    return unprotected_.attack(attack, naive(device_source(attack.name), attack),
                               naive(honest_source("plain"), attack));
  }

  NaiveCandidate naive(const std::filesystem::path& source, const Attack& attack) const {
    std::optional<CudaLaunch> checked;
    for (std::size_t i = 0; i + 1 < attack.weaknesses.size(); ++i) {
      if (attack.weaknesses[i] == "--check-sizes") checked = launch(source, attack.weaknesses[i + 1]);
    }
    const std::string arch = (*evaluated)->candidate(source, problem_of(attack.sizes + " nn")).arch;
    return NaiveCandidate::device(source, arch, launch(source, attack.sizes), checked, scratch.path());
  }
  CudaLaunch launch(const std::filesystem::path& source, const std::string& sizes) const {
    return std::get<CudaLaunch>((*evaluated)->candidate(source, problem_of(sizes + " nn")).launch);
  }

  Unprotected unprotected_{scratch.path()};
  std::map<std::string, Effect> untimed_;
};

class DeviceSuite : public testing::Test {
 public:
  static void SetUpTestSuite() {
    if (!laboratory()) laboratory() = std::make_unique<Laboratory>();
  }
  void SetUp() override {
    if (!laboratory()->evaluated) GTEST_SKIP() << laboratory()->evaluated.error().message;
  }

 protected:
  static std::unique_ptr<Laboratory>& laboratory() {
    static std::unique_ptr<Laboratory> instance;
    return instance;
  }
  static Evaluated& evaluated() { return **laboratory()->evaluated; }

  // Both halves of the case, and its line in the record.
  struct Finding {
    Effect effect;
    Fate fate;
  };
  static Finding run(const Attack& attack) {
    Finding finding;
    finding.effect = laboratory()->unprotected(attack);
    const auto start = std::chrono::steady_clock::now();
    const std::string& sizes = attack.evaluated_sizes.empty() ? attack.sizes : attack.evaluated_sizes;
    finding.fate = evaluated().attack(device_source(attack.name), problem_of(sizes + " nn"), honest_source("plain"));
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    record({{"name", attack.name},
            {"kind", "device"},
            {"succeeds_unprotected", finding.effect.succeeded},
            {"how_unprotected", finding.effect.how},
            {"caught", finding.fate.caught()},
            {"how", fmt::format("{}: {}", fmt::join(finding.fate.stopped_by, ", "), finding.fate.how)},
            {"seconds", finding.effect.seconds + took.count()}});
    return finding;
  }
};

class DeviceAttacks : public DeviceSuite, public testing::WithParamInterface<Attack> {};

TEST_P(DeviceAttacks, SucceedsUnprotectedAndIsCaughtHere) {
  const Finding finding = run(GetParam());
  EXPECT_TRUE(finding.effect.succeeded) << "on the unprotected harness: " << finding.effect.how;
  EXPECT_TRUE(finding.fate.caught_by(GetParam().caught_by))
      << "stopped by [" << fmt::format("{}", fmt::join(finding.fate.stopped_by, ", ")) << "], expected one of ["
      << fmt::format("{}", fmt::join(GetParam().caught_by, ", ")) << "]: " << finding.fate.how;
}

INSTANTIATE_TEST_SUITE_P(Catalogue, DeviceAttacks, testing::ValuesIn(device_attacks()), CaseName());

class HonestDeviceCandidates : public DeviceSuite, public testing::WithParamInterface<Honest> {};

TEST_P(HonestDeviceCandidates, AreNotAccused) {
  bool accused = false;
  std::string how;
  for (const std::string& problem : GetParam().problems) {
    const Verdict verdict = evaluated().evaluate(honest_source(GetParam().name), problem_of(problem));
    EXPECT_NE(verdict.accepted(), nullptr) << problem << ": " << verdict.describe();
    if (verdict.accepted() == nullptr) {
      accused = true;
      how += problem + ": " + verdict.describe() + "; ";
    }
  }
  record({{"name", GetParam().name}, {"kind", "honest-device"}, {"accused", accused}, {"how", how}});
}

INSTANTIATE_TEST_SUITE_P(Catalogue, HonestDeviceCandidates, testing::ValuesIn(honest_device_candidates()), CaseName());

}  // namespace
}  // namespace warpsmith::attacks
