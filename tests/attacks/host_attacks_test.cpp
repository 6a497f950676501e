// Every attack with host code: it succeeds on the unprotected harness, and the audit holds it against the candidate.
// Honest libraries are not accused. Needs a CUDA device and what the audit's sandbox needs.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <chrono>

#include "../compile/test_directory.h"
#include "audited.h"
#include "cases.h"
#include "catalogue.h"
#include "files.h"
#include "results.h"
#include "unprotected.h"

namespace warpsmith::attacks {

namespace {

struct Laboratory {
  TestDirectory scratch;
  Result<Audited> audited = Audited::start();
  Unprotected unprotected{scratch.path()};
};

class HostSuite : public testing::Test {
 public:
  static void SetUpTestSuite() {
    if (!laboratory()) laboratory() = std::make_unique<Laboratory>();
  }
  void SetUp() override {
    if (!laboratory()->audited) GTEST_SKIP() << laboratory()->audited.error().message;
  }

 protected:
  static std::unique_ptr<Laboratory>& laboratory() {
    static std::unique_ptr<Laboratory> instance;
    return instance;
  }
};

class HostAttacks : public HostSuite, public testing::WithParamInterface<Attack> {};

TEST_P(HostAttacks, SucceedsUnprotectedAndIsCaughtHere) {
  const Attack& attack = GetParam();
  const auto start = std::chrono::steady_clock::now();
  const auto library = host_library(attack.name);
  const Effect effect = laboratory()->unprotected.attack(attack, NaiveCandidate::library(library),
                                                         NaiveCandidate::library(host_library("host_plain")));
  const Fate fate = laboratory()->audited->attack(attack, library);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  record({{"name", attack.name},
          {"kind", "host"},
          {"succeeds_unprotected", effect.succeeded},
          {"how_unprotected", effect.how},
          {"caught", fate.caught()},
          {"how", fate.how},
          {"seconds", took.count()}});
  EXPECT_TRUE(effect.succeeded) << "on the unprotected harness: " << effect.how;
  EXPECT_TRUE(fate.caught_by(attack.caught_by))
      << "held against it: [" << fmt::format("{}", fmt::join(fate.stopped_by, ", ")) << "], expected one of ["
      << fmt::format("{}", fmt::join(attack.caught_by, ", ")) << "]: " << fate.how;
}

INSTANTIATE_TEST_SUITE_P(Catalogue, HostAttacks, testing::ValuesIn(host_attacks()), CaseName());

class HonestHostCandidates : public HostSuite, public testing::WithParamInterface<Honest> {};

TEST_P(HonestHostCandidates, AreNotAccused) {
  Fate worst;
  for (const std::string& text : GetParam().problems) {
    const Fate fate = laboratory()->audited->examine(host_library(GetParam().name), parse_problem(text).value(), true);
    EXPECT_FALSE(fate.caught()) << text << ": " << fate.how;
    if (fate.caught()) worst = fate;
  }
  record({{"name", GetParam().name}, {"kind", "honest-host"}, {"accused", worst.caught()}, {"how", worst.how}});
}

INSTANTIATE_TEST_SUITE_P(Catalogue, HonestHostCandidates, testing::ValuesIn(honest_host_candidates()), CaseName());

}  // namespace
}  // namespace warpsmith::attacks
