// A small task and a session on the CPU for tests: y = factor * x + offset, with candidates as text.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>

#include "base/file.h"
#include "task/session.h"

namespace warpsmith::task {

class SessionTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    directory_ = std::filesystem::temp_directory_path() / ("warpsmith_task_" + std::to_string(getpid()));
    const auto write = [](const char* name, const char* text) {
      ASSERT_TRUE(write_file_atomic(directory_ / "scale" / name, text).ok());
    };
    write("task.toml", R"(warpsmith_task = 1
about = "y = factor * x + offset"
reference = "reference.cpp"
data = ["uniform", "special"]
[[constant]]
name = "count"
type = "int"
[[constant]]
name = "factor"
type = "float"
[[input]]
name = "x"
type = "f16"
shape = ["count"]
[[input]]
name = "offset"
type = "f32"
shape = [1]
fixed = true
[[output]]
name = "y"
type = "f16"
shape = ["count"]
relative = 1e-6
absolute = 1e-6
[[setting]]
count = 100
factor = 0.5
[[setting]]
count = 333
factor = -2.0
[[setting]]
count = 5000
factor = 1.0
timed = true
)");
    write("reference.cpp", R"(extern "C" void reference(const Arguments& t) {
  for (std::int64_t i = 0; i < t.count; ++i) t.y[i] = t.factor * t.x[i] + t.offset[0];
}
)");
    session_ = open(directory_ / "scale");
  }

  static void TearDownTestSuite() {
    session_.reset();
    std::filesystem::remove_all(directory_);
  }

  static std::unique_ptr<TaskSession> open(const std::filesystem::path& path) {
    auto task = load_task(path);
    EXPECT_TRUE(task.ok()) << task.error().message;
    SessionOptions options;
    options.evaluator.limits.gate_seconds = 3;
    options.compiler.cache = directory_ / "cache";
    auto session = TaskSession::open(std::move(*task), options);
    EXPECT_TRUE(session.ok()) << session.error().message;
    return session.ok() ? std::move(*session) : nullptr;
  }

  static TaskCandidate candidate(const std::string& body, const std::string& fields = "") {
    auto parsed =
        session_->parse("#include <cstdlib>\n#include <cstring>\n#include <fcntl.h>\n#include <unistd.h>\n" + body,
                        R"({"warpsmith_candidate": 1, "source": "scale.cpp", "entry": "scale")" + fields + "}");
    EXPECT_TRUE(parsed.ok()) << parsed.error().message;
    return parsed.ok() ? std::move(*parsed) : TaskCandidate();
  }
  static Verdict evaluate(const std::string& body, const std::string& fields = "") {
    TimingEffort effort;
    effort.seconds = 0.02;
    return session_->evaluate(candidate(body, fields), 0, effort).verdict;
  }

  // The whole right kernel, for wrong ones to start from.
  static constexpr const char* kHonest = R"(
static void honest(const Arguments& t, std::int64_t count) {
  const float factor = t.factor, offset = t.offset[0];
  for (std::int64_t i = 0; i < count; ++i) t.y[i] = static_cast<f16>(factor * static_cast<float>(t.x[i]) + offset);
}
)";
  static Verdict evaluate_body(const std::string& body, const std::string& fields = "") {
    return evaluate(std::string(kHonest) + "extern \"C\" void scale(const Arguments& t) {" + body + "}\n", fields);
  }

  static inline std::filesystem::path directory_;
  static inline std::unique_ptr<TaskSession> session_;
};

}  // namespace warpsmith::task
