// The gate sequence over scripted candidates: each fault is caught by the gate that is meant for it.
#include "evaluate/gates.h"

#include <gtest/gtest.h>

#include <utility>

#include "fake_backend.h"

namespace warpsmith {
namespace {

GateReport gates_of(FakeBackend& backend, GateOptions options = {}) { return run_gates(backend, options); }

void expect_failure(FakeBackend& backend, const std::string& gate, const std::string& words = {}) {
  const GateReport report = gates_of(backend);
  EXPECT_FALSE(report.passed());
  ASSERT_FALSE(report.gates.empty());
  EXPECT_EQ(report.gates.back().gate, gate);
  EXPECT_NE(report.gates.back().detail.find(words), std::string::npos) << report.gates.back().detail;
  for (std::size_t i = 0; i + 1 < report.gates.size(); ++i) EXPECT_TRUE(report.gates[i].passed);
}

// An honest result, then a change to it.
FakeBackend::Kernel after_honest(std::function<void(FakeBackend&)> change) {
  return [change = std::move(change)](FakeBackend& self) {
    self.multiply();
    change(self);
  };
}

TEST(Gates, AnHonestCandidatePassesAll) {
  FakeBackend backend;
  const GateReport report = gates_of(backend);
  EXPECT_TRUE(report.passed());
  std::vector<std::string> names;
  for (const GateResult& gate : report.gates) names.push_back(gate.gate);
  EXPECT_EQ(names,
            (std::vector<std::string>{"coverage", "bound/normal", "repeatability", "bound/uniform", "bound/positive",
                                      "bound/wide-range", "bound/large", "bound/subnormal", "bound/special",
                                      "bound/edge", "exact", "accumulator", "precision", "freshness", "state"}));
}

TEST(Gates, PreparationUsesTheSameInputs) {
  FakeBackend backend;
  ASSERT_TRUE(prepare_gates(backend, 3, 4).ok());
  const auto prepared = backend.fills;
  backend.fills.clear();
  EXPECT_TRUE(gates_of(backend, {3, 4, false, {}}).passed());
  EXPECT_EQ(backend.fills, prepared);
}

TEST(Gates, AnElementLeftUnwritten) {
  FakeBackend backend;
  backend.kernel = [](FakeBackend& self) {
    const std::uint16_t before = self.c.back();
    self.multiply();
    self.c.back() = before;
  };
  expect_failure(backend, "coverage", "1 elements of C still hold the poison");
}

TEST(Gates, OnePoisonAsAConstantDoesNotHelp) {
  FakeBackend backend;
  backend.kernel = after_honest([](FakeBackend& self) { self.c.back() = kPoisonPatterns[1]; });
  expect_failure(backend, "coverage");
}

TEST(Gates, AChangedInput) {
  FakeBackend backend;
  backend.kernel = after_honest([](FakeBackend& self) { self.a[3] ^= 1; });
  expect_failure(backend, "coverage", "touched");
}

TEST(Gates, ARedZoneHitOnlyOnLaterInputs) {
  FakeBackend backend;
  backend.kernel = after_honest([](FakeBackend& self) { self.red_zone_hit = self.spec.kind == InputKind::large; });
  expect_failure(backend, "coverage", "on large inputs");
}

// --- scaled problems ---

FakeBackend scaled_backend() {
  FakeBackend backend;
  backend.problem.scaling = Scaling::alpha_beta;
  return backend;
}

TEST(Gates, AnHonestScaledCandidatePassesAll) {
  for (const ElementType element : {ElementType::f16, ElementType::bf16}) {
    FakeBackend backend = scaled_backend();
    backend.problem.element = element;
    std::vector<std::pair<float, float>> factors;
    backend.kernel = after_honest([&](FakeBackend& self) {
      const std::pair<float, float> now{self.factors.alpha, self.factors.beta};
      if (std::find(factors.begin(), factors.end(), now) == factors.end()) factors.push_back(now);
    });
    const GateReport report = gates_of(backend);
    EXPECT_TRUE(report.passed()) << report.gates.back().gate << ": " << report.gates.back().detail;
    EXPECT_EQ(factors, (std::vector<std::pair<float, float>>{{1, 0}, {1, 1}, {-1, 0.5F}, {0.5F, -1}}));
  }
}

TEST(Gates, AScaledCandidateThatIgnoresC) {
  FakeBackend backend = scaled_backend();
  backend.kernel = [](FakeBackend& self) {
    const Factors given = std::exchange(self.factors, {self.factors.alpha, 0});
    self.multiply();
    self.factors = given;
  };
  expect_failure(backend, "bound/uniform");
}

TEST(Gates, AScaledCandidateThatIgnoresAlpha) {
  FakeBackend backend = scaled_backend();
  backend.kernel = [](FakeBackend& self) {
    const Factors given = std::exchange(self.factors, {1, self.factors.beta});
    self.multiply();
    self.factors = given;
  };
  expect_failure(backend, "bound/positive");
}

TEST(Gates, AScaledCandidateThatReadsCWithoutBeta) {
  FakeBackend backend = scaled_backend();
  backend.kernel = [](FakeBackend& self) {
    const auto before = self.c;
    self.multiply();
    for (std::size_t i = 0; i < before.size(); ++i) {
      const double old = element_to_double(before[i], self.problem.element);  // NaN, where beta is 0
      const double value = element_to_double(self.c[i], self.problem.element);
      if (self.factors.beta == 0) self.c[i] = double_to_element(value + 0 * old, self.problem.element);
    }
  };
  expect_failure(backend, "bound/normal");
}

// Rounded to 16 bits before C is added, and once more after it.
TEST(Gates, AScaledCandidateThatRoundsTwice) {
  FakeBackend backend = scaled_backend();
  backend.problem = {40, 50, 64, Layout::nn, ElementType::f16, AccumulatorType::f32, Scaling::alpha_beta};
  backend.kernel = [](FakeBackend& self) {
    for (std::int64_t i = 0; i < self.problem.m; ++i) {
      for (std::int64_t j = 0; j < self.problem.n; ++j) {
        std::uint16_t& out = self.c[FakeBackend::at(i, j, self.problem.n)];
        const std::uint16_t sum = double_to_element(self.factors.alpha * self.product(i, j), ElementType::f16);
        double value = element_to_double(sum, ElementType::f16);
        if (self.factors.beta != 0) value += self.factors.beta * element_to_double(out, ElementType::f16);
        out = double_to_element(value, ElementType::f16);
      }
    }
  };
  const GateReport report = gates_of(backend);
  EXPECT_FALSE(report.passed()) << "the share of misrounded results, if no bound, shows it";
}

// --- FP16 accumulation ---

// Sixteen products at once are added to a sum that is kept in FP16.
void multiply_in_f16(FakeBackend& self) {
  const auto element = [&](const std::vector<std::uint16_t>& matrix, std::int64_t row, std::int64_t column,
                           std::int64_t columns) {
    return element_to_double(matrix[FakeBackend::at(row, column, columns)], ElementType::f16);
  };
  const Problem& p = self.problem;
  for (std::int64_t i = 0; i < p.m; ++i) {
    for (std::int64_t j = 0; j < p.n; ++j) {
      double sum = 0;
      for (std::int64_t k = 0; k < p.k; k += 16) {
        for (std::int64_t x = k; x < std::min(k + 16, p.k); ++x) {
          sum += element(self.a, i, x, p.k) * element(self.b, x, j, p.n);
        }
        sum = element_to_double(double_to_element(sum, ElementType::f16), ElementType::f16);
      }
      self.c[FakeBackend::at(i, j, p.n)] = double_to_element(sum, ElementType::f16);
    }
  }
}

TEST(Gates, Fp16AccumulationPassesWhereItIsAskedForAlone) {
  FakeBackend backend;
  backend.problem = {20, 30, 512};
  backend.kernel = multiply_in_f16;
  EXPECT_FALSE(gates_of(backend).passed());
  backend.problem.accumulator = AccumulatorType::f16;
  const GateReport report = gates_of(backend, {.accumulator = AccumulatorType::f16});
  EXPECT_TRUE(report.passed()) << report.gates.back().gate << ": " << report.gates.back().detail;
  for (const GateResult& gate : report.gates) {
    EXPECT_NE(gate.gate, "accumulator");
    EXPECT_NE(gate.gate, "precision");
  }
}

TEST(Gates, WhatIsWrongIsWrongInFp16Too) {
  FakeBackend backend;
  backend.problem = {20, 30, 512, Layout::nn, ElementType::f16, AccumulatorType::f16};
  backend.kernel = [](FakeBackend& self) {
    multiply_in_f16(self);
    self.c[11] = 0;
  };
  EXPECT_FALSE(gates_of(backend, {.accumulator = AccumulatorType::f16}).passed());
  backend.kernel = [](FakeBackend& self) { std::fill(self.c.begin(), self.c.end(), std::uint16_t{0}); };
  EXPECT_EQ(gates_of(backend, {.accumulator = AccumulatorType::f16}).gates.back().gate, "bound/normal");
}

TEST(Gates, NaNIsNoWildcard) {
  FakeBackend backend;
  backend.kernel = after_honest([](FakeBackend& self) { self.c[7] = 0x7e00; });
  expect_failure(backend, "bound/normal");
}

TEST(Gates, AConstantResult) {
  FakeBackend backend;
  backend.kernel = [](FakeBackend& self) { std::fill(self.c.begin(), self.c.end(), std::uint16_t{0}); };
  expect_failure(backend, "bound/normal");
}

TEST(Gates, AForgottenTailOfK) {
  FakeBackend backend;
  backend.kernel = [](FakeBackend& self) {
    --self.problem.k;
    const auto a = self.a;
    for (std::int64_t i = 0; i < self.problem.m; ++i) {
      for (std::int64_t k = 0; k < self.problem.k; ++k) {
        self.a[FakeBackend::at(i, k, self.problem.k)] = a[FakeBackend::at(i, k, self.problem.k + 1)];
      }
    }
    self.multiply();
    self.a = a;
    ++self.problem.k;
  };
  expect_failure(backend, "bound/normal");
}

TEST(Gates, FlushedSubnormals) {
  FakeBackend backend;
  backend.kernel = after_honest([](FakeBackend& self) {
    for (auto& bits : self.c) {
      if ((bits & 0x7c00) == 0) bits = 0;
    }
  });
  expect_failure(backend, "bound/subnormal");
}

TEST(Gates, SaturationInsteadOfInfinity) {
  FakeBackend backend;
  backend.kernel = after_honest([](FakeBackend& self) {
    for (auto& bits : self.c) {
      if ((bits & 0x7fff) == 0x7c00) bits = static_cast<std::uint16_t>(bits - 1);
    }
  });
  const GateReport report = gates_of(backend);
  ASSERT_FALSE(report.passed());
  EXPECT_TRUE(report.gates.back().gate == "bound/large" || report.gates.back().gate == "bound/special");
}

TEST(Gates, NaNThatDoesNotPropagate) {
  FakeBackend backend;
  backend.kernel = after_honest([](FakeBackend& self) {
    for (auto& bits : self.c) {
      if (is_nan_bits(bits, self.problem.element)) bits = 0;
    }
  });
  expect_failure(backend, "bound/special");
}

TEST(Gates, Fp16AccumulationFailsTheProbeAtTheLatest) {
  FakeBackend backend;
  backend.problem = {4, 8, 1024};
  backend.kernel = [](FakeBackend& self) {
    const auto round = [](double x) {
      return element_to_double(double_to_element(x, ElementType::f16), ElementType::f16);
    };
    for (std::int64_t i = 0; i < self.problem.m; ++i) {
      for (std::int64_t j = 0; j < self.problem.n; ++j) {
        double sum = 0, partial = 0;
        for (std::int64_t k = 0; k < self.problem.k; ++k) {
          partial += element_to_double(self.a[FakeBackend::at(i, k, self.problem.k)], ElementType::f16) *
                     element_to_double(self.b[FakeBackend::at(k, j, self.problem.n)], ElementType::f16);
          if (k % 16 == 15) {
            // Only the probe's sums suffer: elsewhere the sum is honest, as if the precision were chosen by the data.
            sum += self.spec.kind == InputKind::accumulator ? round(partial) : partial;
            partial = 0;
          }
        }
        self.c[FakeBackend::at(i, j, self.problem.n)] = double_to_element(sum, ElementType::f16);
      }
    }
  };
  expect_failure(backend, "accumulator");
}

// In single precision wherever data look like a check, in half precision where they look like what is timed.
FakeBackend::Kernel half_precision_where(std::function<bool(const FakeBackend&)> half) {
  return [half = std::move(half)](FakeBackend& self) {
    self.multiply();
    if (!half(self)) return;
    for (std::size_t i = 0; i < self.c.size(); i += 2) ++self.c[i];
  };
}

TEST(Gates, HalfPrecisionOnNormalDataAlone) {
  FakeBackend backend;
  backend.problem = {8, 8, 4096};
  backend.kernel = half_precision_where([](const FakeBackend& self) { return self.spec.kind == InputKind::normal; });
  const GateReport report = gates_of(backend);
  ASSERT_FALSE(report.passed());
  EXPECT_EQ(report.gates.back().gate, "precision");
  EXPECT_EQ(report.gates.back().detail.find("50 % of 64 elements"), 0u) << report.gates.back().detail;
}

TEST(Gates, HalfPrecisionOnFreshDataAlone) {
  FakeBackend backend;
  backend.problem = {8, 8, 4096};
  backend.kernel = half_precision_where(
      [](const FakeBackend& self) { return self.spec.kind == InputKind::normal && self.spec.seed != 1; });
  expect_failure(backend, "precision", "on fresh data: ");
}

TEST(Gates, HalfPrecisionInTheLastRunsAlone) {
  FakeBackend backend;
  backend.problem = {8, 8, 4096};
  backend.kernel = half_precision_where([](const FakeBackend& self) {
    return self.spec.kind == InputKind::normal && self.spec.seed != 1 && self.spec.seed != 2;
  });
  expect_failure(backend, "precision", "with other data at the same addresses and nothing reset: ");
}

// Made for dependent launches, with what the device says of them.
class DependentBackend final : public FakeBackend {
 public:
  Result<CheckReport> said = CheckReport{true, {}, 0, 0};
  bool asked = false;
  bool offers_dependent_launch() const override { return true; }
  Result<CheckReport> check_dependent_launch() override {
    asked = true;
    return said;
  }
};

TEST(Gates, DependentLaunchesWhereTheyAreOffered) {
  DependentBackend backend;
  const GateReport report = gates_of(backend);
  EXPECT_TRUE(report.passed());
  EXPECT_TRUE(backend.asked);
  EXPECT_EQ(report.gates.back().gate, "dependent-launch");
  backend.said = CheckReport{false, "the second of three launches leaves other bits", 0, 1};
  expect_failure(backend, "dependent-launch", "the second of three");
  backend.said = failure("an illegal memory access was encountered");
  EXPECT_EQ(gates_of(backend).crash, "an illegal memory access was encountered");
  backend.said = environment_error("not enough device memory");
  EXPECT_EQ(gates_of(backend).fault, "not enough device memory");
}

TEST(Gates, DependentLaunchesThatCannotBeCompared) {
  DependentBackend backend;
  const GateReport report = gates_of(backend, {1, 2, true, "atomic adds"});
  EXPECT_TRUE(report.passed());
  EXPECT_FALSE(backend.asked);
  EXPECT_EQ(report.gates.back().detail.find("not run: "), 0u);
}

// Right within the bound, but other bits on every run.
class UnrepeatableBackend final : public FakeBackend {
 public:
  std::uint64_t output_hash() override { return static_cast<std::uint64_t>(runs); }
};

TEST(Gates, ResultsThatDifferFromRunToRunMustBeDeclared) {
  UnrepeatableBackend backend;
  expect_failure(backend, "repeatability");
  const GateReport declared = gates_of(backend, {1, 2, true, "atomic adds"});
  EXPECT_TRUE(declared.passed());
  ASSERT_GT(declared.gates.size(), 2u);
  EXPECT_NE(declared.gates[2].detail.find("atomic adds"), std::string::npos);
}

// Keeps the result of the run before last where the workspace would be, for these addresses.
class CachingBackend final : public FakeBackend {
 public:
  Status run_once(std::uint16_t poison) override {
    cached_.clear();
    return FakeBackend::run_once(poison);
  }
  Status run_kept(std::uint16_t poison) override {
    if (cached_.empty()) cached_ = c;
    const Status status = FakeBackend::run_once(poison);
    c = cached_;
    return status;
  }

 private:
  std::vector<std::uint16_t> cached_;
};

TEST(Gates, AResultKeptInTheWorkspace) {
  CachingBackend backend;
  expect_failure(backend, "state", "with other data at the same addresses");
}

// Believes that C still holds what it wrote there.
class SkippingBackend : public FakeBackend {
 public:
  Status run_stale(std::uint16_t poison, const inputs::Holes& holes) override {
    const auto count = static_cast<std::int64_t>(c.size());
    for (std::int64_t i = 0; i < count; ++i) {
      if (holes.at(i, count)) c[static_cast<std::size_t>(i)] = poison;
    }
    return ok_status();
  }
};

TEST(Gates, ALaunchThatSkipsItsWork) {
  SkippingBackend backend;
  expect_failure(backend, "state", "launched once more with poison scattered in C and nothing reset: ");
}

// Does its work where one of a few elements is not what it wrote there, as one of many holes may be.
class SamplingBackend final : public SkippingBackend {
 public:
  Status run_stale(std::uint16_t poison, const inputs::Holes& holes) override {
    return holes.stride != 0 ? ok_status() : SkippingBackend::run_stale(poison, holes);
  }
};

TEST(Gates, ALaunchThatSkipsItsWorkWhereASampleOfCIsThere) {
  SamplingBackend backend;
  expect_failure(backend, "state", "launched once more with poison scattered in C and nothing reset: 1 elements of C");
}

TEST(Gates, HolesAreOneAtLeastAndOneInSoManyOthers) {
  constexpr std::int64_t kCount = 64 * 1024;
  const auto holes = [](std::uint64_t key, std::uint64_t stride, std::int64_t count) {
    std::int64_t found = 0;
    for (std::int64_t i = 0; i < count; ++i) found += inputs::Holes{key, stride}.at(i, count);
    return found;
  };
  for (std::uint64_t key = 1; key <= 20; ++key) {
    EXPECT_EQ(holes(key, 0, kCount), 1);
    EXPECT_EQ(holes(key, 0, 1), 1);
    EXPECT_NEAR(static_cast<double>(holes(key, 64, kCount)), 1024, 5 * 32);  // five standard deviations
  }
}

class CountingBackend final : public FakeBackend {
 public:
  Result<CheckReport> check_state() override { return CheckReport{false, "the global `calls` changed", 0, 1}; }
};

TEST(Gates, GlobalsThatChange) {
  CountingBackend backend;
  expect_failure(backend, "state", "the global `calls` changed");
}

TEST(Gates, TheSeedOfFreshDataIsOnRecord) {
  FakeBackend backend;
  const GateReport report = gates_of(backend, {1, 77, false, {}});
  ASSERT_GE(report.gates.size(), 2u);
  EXPECT_EQ(report.gates[report.gates.size() - 2].detail, "seed 77");
  EXPECT_NE(draw_seed(), draw_seed());
}

TEST(Gates, ACrashIsReportedInTheDevicesWords) {
  FakeBackend backend;
  backend.run_error = "an illegal memory access was encountered";
  backend.fail_at = InputKind::uniform;
  const GateReport report = gates_of(backend);
  EXPECT_FALSE(report.passed());
  ASSERT_TRUE(report.crash.has_value());
  EXPECT_EQ(*report.crash, "an illegal memory access was encountered");
  EXPECT_EQ(report.gates.size(), 3u);
}

}  // namespace
}  // namespace warpsmith
