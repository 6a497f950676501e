// The torch.matmul helper where it cannot measure, and answers that stand in for it: no GPU is needed.
#include "torch_baseline.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>

#include "base/paths.h"
#include "base/subprocess.h"
#include "temporary_directory.h"

namespace warpsmith::cli {
namespace {

namespace fs = std::filesystem;

// Enough of PyTorch to run the helper: matmul and graphs do nothing, and events tell 640 us for whatever lies between
// them.
constexpr const char* kPretendedTorch = R"py(
import contextlib, types
__version__ = '2.0'
version = types.SimpleNamespace(cuda='13.0')
float16, bfloat16, float32, int32 = 'float16', 'bfloat16', 'float32', 'int32'
class Tensor:
    def __init__(self, rows, columns=1, dtype=None): self.rows, self.columns, self.dtype = rows, columns, dtype
    def to(self, dtype): return Tensor(self.rows, self.columns, dtype)
    def t(self): return Tensor(self.columns, self.rows, self.dtype)
    def sum(self): return self
def ones(count, dtype, device): return Tensor(count)
def randn(rows, columns, device, dtype): return Tensor(rows, columns, dtype)
empty = randn
def matmul(a, b, out):
    assert a.columns == b.rows and (out.rows, out.columns) == (a.rows, b.columns)
    assert a.dtype == b.dtype == out.dtype == 'bfloat16'
def manual_seed(seed): pass
class Event:
    def __init__(self, enable_timing): pass
    def record(self): pass
    def synchronize(self): pass
    def elapsed_time(self, other): return 0.64
class Graph:
    def replay(self): pass
class Stream:
    def wait_stream(self, other): pass
class cuda:
    Event, Stream, CUDAGraph = Event, Stream, Graph
    is_available = staticmethod(lambda: True)
    device_count = staticmethod(lambda: 1)
    set_device = staticmethod(lambda device: None)
    current_device = staticmethod(lambda: 0)
    current_stream = staticmethod(lambda: Stream())
    get_device_name = staticmethod(lambda device: 'pretended')
    get_device_properties = staticmethod(lambda device: types.SimpleNamespace(L2_cache_size=1 << 20))
    mem_get_info = staticmethod(lambda: (1 << 30, 1 << 30))
    synchronize = staticmethod(lambda: None)
    empty_cache = staticmethod(lambda: None)
    stream = staticmethod(lambda stream: contextlib.nullcontext())
    graph = staticmethod(lambda graph: contextlib.nullcontext())
class backends:
    class cuda:
        class matmul: allow_fp16_reduced_precision_reduction = allow_bf16_reduced_precision_reduction = True
)py";

class TorchBaseline : public TemporaryDirectory {
 protected:
  void TearDown() override {
    unsetenv("WARPSMITH_PYTHON");
    TemporaryDirectory::TearDown();
  }

  // An interpreter that runs `body` instead of the helper.
  void pretend(const std::string& body) const {
    const fs::path path = home_ / "python";
    std::ofstream(path) << "#!/bin/sh\n" << body << "\n";
    fs::permissions(path, fs::perms::owner_all);
    setenv("WARPSMITH_PYTHON", path.c_str(), 1);
  }

  std::string reason() const {
    const nlohmann::json answer = measure_torch({64, 32, 16}, {});
    EXPECT_FALSE(answer.contains("subjects")) << answer;
    return answer.value("not_run", std::string("<none>"));
  }

  // The helper itself, by the system's Python, with a module `torch` of our making.
  static std::optional<ProcessOutput> run_helper(const std::vector<std::string>& arguments, const fs::path& modules) {
    ProcessRequest request;
    request.argv = {"python3", (executable_dir() / "torch_baseline.py").string()};
    request.argv.insert(request.argv.end(), arguments.begin(), arguments.end());
    request.environment = {{"PYTHONPATH", modules.string()}, {"PYTHONDONTWRITEBYTECODE", "1"}};
    const auto output = run_process(request);
    if (!output || output->status.exit_code == 127) return std::nullopt;
    return *output;
  }
};

TEST_F(TorchBaseline, TakesAReport) {
  pretend(R"(shift; echo '{"subjects": [{"subject": "torch-matmul-nn", "cold": {"median_us": 2.5}, )"
          R"("warm": {"median_us": 2}, "interleaved": false, "detail": "'"$*"'"}]}')");
  const nlohmann::json answer =
      measure_torch({64, 32, 16, Layout::tn, ElementType::bf16}, {"server", 50, 20, 0.25, 7, 1});
  ASSERT_TRUE(answer.contains("subjects")) << answer;
  EXPECT_EQ(answer["subjects"][0]["cold"]["median_us"], 2.5);
  EXPECT_EQ(answer["subjects"][0]["detail"],
            "64 32 16 --type bf16 --mode server --qps 50 --arrivals 20 --seconds 0.25 --seed 7 --device 1");
}

TEST_F(TorchBaseline, SaysWhyItWasNotRun) {
  setenv("WARPSMITH_PYTHON", "/nonexistent/python", 1);
  EXPECT_NE(reason().find("/nonexistent/python"), std::string::npos);
  pretend("echo noise >&2; echo 'torch_baseline: no GPU' >&2; exit 3");
  EXPECT_EQ(reason(), "torch_baseline: no GPU");
  pretend("exit 5");
  EXPECT_EQ(reason(), "exit code 5");
  pretend("kill -9 $$");
  EXPECT_NE(reason().find("signal 9"), std::string::npos);
}

TEST_F(TorchBaseline, TakesNoOtherAnswer) {
  for (const char* answer : {"", "hello", "{}", "[1]", R"({"subjects": 3})", R"({"subjects": [{"subject": "x"}]})",
                             R"({"subjects": [{"subject": "x", "cold": {"median_us": 0}, "warm": {"median_us": 1}}]})",
                             R"({"subjects": [{"subject": "x", "cold": 1, "warm": 1}]})"}) {
    pretend(std::string("echo '") + answer + "'");
    EXPECT_NE(reason().find("no report"), std::string::npos) << answer;
  }
}

TEST_F(TorchBaseline, HelperRefusesBadInputInOneLine) {
  for (const std::vector<std::string>& bad : {std::vector<std::string>{"64", "0", "64"},
                                              {"64", "64"},
                                              {"64", "64", "64", "--mode", "fast"},
                                              {"64", "64", "64", "--type", "f64"},
                                              {"64", "64", "64", "--qps", "nan"}}) {
    const auto output = run_helper(bad, home_);
    if (!output) GTEST_SKIP() << "not run: there is no python3";
    EXPECT_EQ(output->status.exit_code, 2) << output->err;
    EXPECT_EQ(output->out, "");
    EXPECT_EQ(std::count(output->err.begin(), output->err.end(), '\n'), 1) << output->err;
  }
}

TEST_F(TorchBaseline, HelperSaysWhatIsMissing) {
  std::ofstream(home_ / "torch.py") << "raise ImportError('no PyTorch here')\n";
  auto output = run_helper({"64", "64", "64"}, home_);
  if (!output) GTEST_SKIP() << "not run: there is no python3";
  EXPECT_EQ(output->status.exit_code, 3) << output->err;
  EXPECT_NE(output->err.find("PyTorch cannot be imported"), std::string::npos) << output->err;
  EXPECT_EQ(output->out, "");
  std::ofstream(home_ / "torch.py")
      << "__version__ = '2.0'\nclass cuda:\n  is_available = staticmethod(lambda: False)\n";
  output = run_helper({"64", "64", "64"}, home_);
  EXPECT_EQ(output->status.exit_code, 3) << output->err;
  EXPECT_EQ(output->err, "torch_baseline: PyTorch 2.0 finds no CUDA GPU\n");
}

TEST_F(TorchBaseline, HelperReportsEveryMode) {
  std::ofstream(home_ / "torch.py") << kPretendedTorch;
  for (const std::string mode : {"offline", "call", "server"}) {
    const auto output = run_helper(
        {"64", "32", "16", "--type", "bf16", "--mode", mode, "--qps", "1e5", "--arrivals", "12", "--seconds", "0.01"},
        home_);
    if (!output) GTEST_SKIP() << "not run: there is no python3";
    ASSERT_EQ(output->status.exit_code, 0) << output->err;
    const auto report = nlohmann::json::parse(output->out);
    EXPECT_NE(report["measured"].get<std::string>().find("not interleaved"), std::string::npos);
    EXPECT_EQ(report["versions"]["torch"], "2.0");
    ASSERT_EQ(report["subjects"].size(), 2u);
    EXPECT_EQ(report["subjects"][0]["subject"], "torch-matmul-nn");
    EXPECT_EQ(report["subjects"][1]["subject"], "torch-matmul-tn");
    for (const auto& subject : report["subjects"]) {
      EXPECT_EQ(subject["mode"], mode);
      EXPECT_EQ(subject["interleaved"], false);
      EXPECT_GT(subject["warm"]["median_us"].get<double>(), 0);
      const auto& cold = subject["cold"];
      // The first estimate is 640 us over 8 launches; 500 us then takes 7 of them, which 640 us are divided by.
      EXPECT_EQ(cold["launches_per_sample"], mode == "offline" ? 7 : 1);
      if (mode == "offline") {
        EXPECT_NEAR(cold["median_us"].get<double>(), 640.0 / 7, 1e-9);
      }
      if (mode == "server") {
        EXPECT_EQ(cold["samples"], 12);
        EXPECT_EQ(subject["server"]["arrivals"], 12);
        EXPECT_EQ(subject["server"]["qps"], 1e5);
      } else {
        EXPECT_GE(cold["samples"].get<int>(), 9);
      }
    }
  }
}

// The helper's arithmetic: percentiles as ours, launches and operand sets within their limits.
TEST_F(TorchBaseline, HelperArithmetic) {
  ProcessRequest request;
  request.argv = {
      "python3", "-c",
      "import sys; sys.path.insert(0, sys.argv[1]); import torch_baseline as t\n"
      "s = t.summarize([5, 1, 2, 4, 3], 8)\n"
      "print(s['median_us'], s['min_us'], s['p5_us'], s['p95_us'], s['mean_us'], s['samples'])\n"
      "print(t.launches_for(0), t.launches_for(10), t.launches_for(400), t.launches_for(1e6))\n"
      "print(t.set_count(100, 1000, 4, 1e6), t.set_count(1e6, 1000, 4, 1e9), t.set_count(1e6, 1000, 4, 1e6))\n",
      executable_dir().string()};
  request.environment = {{"PYTHONDONTWRITEBYTECODE", "1"}};
  const auto output = run_process(request);
  if (!output || output->status.exit_code == 127) GTEST_SKIP() << "not run: there is no python3";
  EXPECT_EQ(output->out, "3.0 1 1.2 4.8 3.0 5\n256 50 4 1\n21 4 1\n") << output->err;
}

}  // namespace
}  // namespace warpsmith::cli
