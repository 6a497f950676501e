// Tasks on a CUDA device: what ships is accepted; kernels that are right at one setting only, that keep results, that
// write astray or crash are not; references in CUDA.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "base/file.h"
#include "base/paths.h"
#include "task/candidates.h"
#include "task/session.h"

namespace warpsmith::task {
namespace {

std::filesystem::path tasks_directory() {
  const auto staged = executable_dir() / ".." / "tasks";
  return std::filesystem::exists(staged) ? staged : std::filesystem::path(WARPSMITH_TASKS);
}

class TasksOnGpu : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    directory_ = std::filesystem::temp_directory_path() / ("warpsmith_task_gpu_" + std::to_string(getpid()));
    std::filesystem::create_directories(directory_);
  }
  static void TearDownTestSuite() { std::filesystem::remove_all(directory_); }

  static std::unique_ptr<TaskSession> open(const std::filesystem::path& path) {
    auto task = load_task(path);
    EXPECT_TRUE(task.ok()) << task.error().message;
    SessionOptions options;
    options.evaluator.target = Target::sm80;
    options.compiler.cache = directory_ / "cache";
    auto session = TaskSession::open(std::move(*task), options);
    EXPECT_TRUE(session.ok()) << session.error().message;
    return session.ok() ? std::move(*session) : nullptr;
  }

  // A small task of its own with a reference in C++ or CUDA.
  static std::filesystem::path write_task(const std::string& name, bool cuda) {
    const auto path = directory_ / name;
    std::string text = R"(warpsmith_task = 1
about = "y = factor * x + 1"
reference = "REFERENCE"
data = ["uniform", "special"]
[[constant]]
name = "count"
type = "int"
[[constant]]
name = "factor"
type = "float"
[[input]]
name = "x"
type = "f32"
shape = ["count"]
[[output]]
name = "y"
type = "f32"
shape = ["count"]
relative = 1e-6
absolute = 1e-6
scaled = true
[[setting]]
count = 100
factor = 0.5
[[setting]]
count = 3333
factor = -2.0
[[setting]]
count = 1000000
factor = 1.0
timed = true
)";
    text.replace(text.find("REFERENCE"), 9, cuda ? "reference.cu" : "reference.cpp");
    EXPECT_TRUE(write_file_atomic(path / "task.toml", text).ok());
    if (!cuda) {
      EXPECT_TRUE(write_file_atomic(path / "reference.cpp", R"(#include <cmath>
extern "C" void reference(const Arguments& t) {
  for (std::int64_t i = 0; i < t.count; ++i) {
    t.y[i] = t.factor * t.x[i] + 1;
    t.y_scale[i] = std::fabs(t.factor * t.x[i]) + 1;
  }
}
)")
                      .ok());
      return path;
    }
    EXPECT_TRUE(write_file_atomic(path / "reference.cu", R"(
extern "C" __global__ void reference(const double* x, double* y, double* y_scale, int count, float factor) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  y[i] = factor * x[i] + 1;
  y_scale[i] = fabs(factor * x[i]) + 1;
}
)")
                    .ok());
    EXPECT_TRUE(write_file_atomic(path / "reference.json", R"json({"warpsmith_candidate": 1, "kernels": [{
  "entry": "reference", "grid": ["ceil_div(count, 256)"], "block": [256],
  "arguments": [{"pointer": "x"}, {"pointer": "y"}, {"pointer": "y_scale"}, {"int32": "count"}, {"float32": "factor"}]}]})json")
                    .ok());
    return path;
  }

  // The body of a kernel over i < count.
  static TaskCandidate written(const TaskSession& session, const std::string& body, const std::string& before = "") {
    const std::string source = before + R"(
extern "C" __global__ void scale(float* x, float* y, int count, float factor) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
)" + body + "}\n";
    const auto candidate = session.parse(source, R"json({"warpsmith_candidate": 1, "source": "scale.cu", "kernels": [{
      "entry": "scale", "grid": ["ceil_div(count, 256)"], "block": [256],
      "arguments": [{"pointer": "x"}, {"pointer": "y"}, {"int32": "count"}, {"float32": "factor"}]}]})json");
    EXPECT_TRUE(candidate.ok()) << candidate.error().message;
    return candidate.ok() ? std::move(*candidate) : TaskCandidate();
  }
  static Verdict evaluate(TaskSession& session, const std::string& body, const std::string& before = "") {
    TimingEffort effort;
    effort.seconds = 0.1;
    return session.evaluate(written(session, body, before), 0, effort).verdict;
  }

  static std::string gate_of(const Verdict& verdict) {
    const auto* wrong = std::get_if<verdict::Wrong>(&verdict.outcome);
    return wrong == nullptr ? verdict.describe() : wrong->gate.gate;
  }

  static inline std::filesystem::path directory_;
};

constexpr const char* kHonest = "y[i] = factor * x[i] + 1;";

TEST_F(TasksOnGpu, ReferencesInBothLanguagesJudgeAlike) {
  for (const bool cuda : {false, true}) {
    const auto session = open(write_task(cuda ? "cuda" : "cpp", cuda));
    ASSERT_NE(session, nullptr);
    const Verdict honest = evaluate(*session, kHonest);
    ASSERT_NE(honest.accepted(), nullptr) << honest.describe();
    EXPECT_GT(honest.accepted()->measurement.cold.median_us, 0.5);
    // 8 MB of tensors stay in a cache of 50.
    EXPECT_GT(honest.accepted()->measurement.warm.median_us, 0.5);
    EXPECT_LT(honest.accepted()->measurement.warm.median_us, 1.1 * honest.accepted()->measurement.cold.median_us);
    EXPECT_EQ(gate_of(evaluate(*session, "y[i] = factor * x[i] + 1.01f;")), "bound/declared");
  }
}

TEST_F(TasksOnGpu, WrongKernelsAreRejected) {
  const auto session = open(write_task("wrong", false));
  ASSERT_NE(session, nullptr);
  // At one setting only.
  EXPECT_EQ(gate_of(evaluate(*session, "y[i] = x[i] + 1;")), "bound/declared");
  EXPECT_EQ(gate_of(evaluate(*session, "if (count == 1000000) y[i] = factor * x[i] + 1;")), "coverage");
  EXPECT_EQ(gate_of(evaluate(*session, "if (i < 100) y[i] = factor * x[i] + 1;")), "coverage");
  // Missing, astray, mutated.
  EXPECT_EQ(gate_of(evaluate(*session, "if (i + 1 < count) y[i] = factor * x[i] + 1;")), "coverage");
  EXPECT_EQ(gate_of(evaluate(*session, "y[i] = factor * x[i] + 1; if (i == 0) y[count] = 0;")), "coverage");
  EXPECT_EQ(gate_of(evaluate(*session, "y[i] = factor * x[i] + 1; if (i == 0) x[0] = 0;")), "coverage");
  // Special values.
  EXPECT_EQ(gate_of(evaluate(*session, "y[i] = fminf(fmaxf(factor * x[i] + 1, -1e30f), 1e30f);")), "bound/special");
  // Kept from call to call.
  EXPECT_EQ(gate_of(evaluate(*session, "if (i == 0) ++calls; y[i] = factor * x[i] + 1;", "__device__ int calls;")),
            "state");
  // Another result every time.
  EXPECT_EQ(gate_of(evaluate(*session, "y[i] = factor * x[i] + 1 + ((clock64() >> 4) % 2 ? 4e-7f : -4e-7f);")),
            "repeatability");
}

TEST_F(TasksOnGpu, TheSanitizerFindsWhatGatesCannotSee) {
  const auto session = open(write_task("watched", false));
  ASSERT_NE(session, nullptr);
  // Each is right, whatever it reads beside the tensors, in which order threads come, or what nobody wrote.
  const std::vector<std::pair<std::string, std::string>> kernels = {
      {"", kHonest},
      {"memcheck",
       "float v = x[i]; if (i + 1 == count) v += 0 * __int_as_float(__float_as_int(x[count]) & 1); "
       "y[i] = factor * v + 1;"},
      {"racecheck",
       "__shared__ volatile float s[256]; s[255 - threadIdx.x] = x[i]; "
       "const float v = s[threadIdx.x]; y[i] = v == -12345.f ? v : factor * x[i] + 1;"},
      {"initcheck", "const float v = y[i]; y[i] = v == -12345.f ? v : factor * x[i] + 1;"}};
  for (const auto& [tool, body] : kernels) {
    const TaskCandidate one = written(*session, body);
    TimingEffort effort;
    effort.seconds = 0.05;
    const Verdict verdict = session->evaluate(one, 0, effort).verdict;
    EXPECT_NE(verdict.accepted(), nullptr) << tool << ": " << verdict.describe();
    const SanitizerReport report = session->sanitize(one, {});
    for (const SanitizerCheck& check : report.checks) {
      if (check.outcome == SanitizerCheck::Outcome::not_run) GTEST_SKIP() << check.tool << ": " << check.detail;
    }
    ASSERT_EQ(report.checks.size(), 4U);
    EXPECT_NE(report.problem.find("at 3 settings"), std::string::npos) << report.problem;
    const SanitizerCheck* found = report.first_failure();
    EXPECT_EQ(found == nullptr ? "" : found->tool, tool) << report.describe();
  }
}

TEST_F(TasksOnGpu, ACrashCostsNothingElse) {
  const auto session = open(write_task("crash", false));
  ASSERT_NE(session, nullptr);
  const Verdict crash = evaluate(*session, "*(volatile int*)8 = 1;");
  EXPECT_TRUE(std::holds_alternative<verdict::Crashed>(crash.outcome)) << crash.describe();
  const Verdict honest = evaluate(*session, kHonest);
  EXPECT_NE(honest.accepted(), nullptr) << honest.describe();
}

TEST_F(TasksOnGpu, ShippedCandidatesAreRightAtTheSmallSettings) {
  // The large settings are measured by scripts/gpu/tasks.sh; here the last small one is timed in their place.
  for (const auto& entry : std::filesystem::directory_iterator(tasks_directory())) {
    if (!entry.is_directory()) continue;
    const auto copy = directory_ / "small" / entry.path().filename();
    std::filesystem::create_directories(copy.parent_path());
    std::filesystem::copy(entry.path(), copy, std::filesystem::copy_options::recursive);
    std::string text = *read_file(copy / "task.toml");
    const auto swap = [&](const std::string& from, const std::string& to) {
      const std::size_t at = text.find(from);
      ASSERT_NE(at, std::string::npos) << entry.path() << " " << from;
      text.replace(at, from.size(), to);
    };
    swap("target = \"cpu\"", "target = \"swapped\"");
    swap("target = \"cuda\"", "target = \"cpu\"");
    swap("target = \"swapped\"", "target = \"cuda\"");
    ASSERT_FALSE(HasFailure());
    ASSERT_TRUE(write_file_atomic(copy / "task.toml", text).ok());
    const auto session = open(copy);
    ASSERT_NE(session, nullptr);
    const auto candidates = load_candidates(session->task(), copy / "candidates", Target::sm80);
    ASSERT_TRUE(candidates.ok()) << candidates.error().message;
    ASSERT_FALSE(candidates->empty()) << entry.path();
    for (const TaskCandidate& one : *candidates) {
      TimingEffort effort;
      effort.seconds = 0.05;
      const Verdict verdict = session->evaluate(one, 0, effort).verdict;
      EXPECT_NE(verdict.accepted(), nullptr) << entry.path() << " " << one.short_name() << ": " << verdict.describe();
    }
  }
}

}  // namespace
}  // namespace warpsmith::task
