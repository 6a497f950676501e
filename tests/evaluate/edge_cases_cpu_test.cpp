// NaN, Inf, signed zeros, subnormals, overflow and ragged sizes through whole kernels on the CPU: the generated ones
// are right, and kernels with one edge wrong are caught.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "base/file.h"
#include "base/hash.h"
#include "base/subprocess.h"
#include "compile/compile.h"
#include "evaluate/cpu/cpu_backend.h"
#include "evaluate/gates.h"

#ifndef WARPSMITH_TEST_ABI
#error "the build names the kernel ABI header"
#endif

namespace warpsmith {
namespace {

class EdgeCases : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    directory_ = std::filesystem::temp_directory_path() / ("warpsmith_edge_" + std::to_string(getpid()));
    std::filesystem::create_directories(directory_);
    backend_ = std::make_unique<CpuBackend>(1);
  }
  static void TearDownTestSuite() {
    backend_.reset();
    std::filesystem::remove_all(directory_);
  }

  static GateReport gates(const Problem& problem, const Artifact& artifact, const CpuLaunch& launch) {
    EXPECT_TRUE(backend_->prepare(problem, 1).ok());
    const Status loaded = backend_->load(artifact, launch);
    EXPECT_TRUE(loaded.ok()) << loaded.error().message;
    return run_gates(*backend_, {3, 4, false, {}});
  }

  // An honest kernel for NN whose result `r`, an FP32 sum, goes through `store` before it is rounded.
  static Artifact handwritten(const std::string& store) {
    const std::string text = *read_file(WARPSMITH_TEST_ABI) + R"(
#include <math.h>
#include <stdint.h>
static float load(uint16_t h) { _Float16 x; __builtin_memcpy(&x, &h, 2); return (float)x; }
static uint16_t round16(float f) { _Float16 x = (_Float16)f; uint16_t h; __builtin_memcpy(&h, &x, 2); return h; }
extern "C" void kernel(const WarpsmithCpuArguments* g, int) {
  for (int64_t i = 0; i < g->m; ++i)
    for (int64_t j = 0; j < g->n; ++j) {
      float r = 0;
      for (int64_t k = 0; k < g->k; ++k) r += load(g->a[i * g->lda + k]) * load(g->b[k * g->ldb + j]);
      uint16_t h;
      )" + store + R"(
      g->c[i * g->ldc + j] = h;
    }
}
)";
    Artifact artifact;
    artifact.source = directory_ / (sha256_hex(text) + ".cpp");
    artifact.binary = directory_ / (sha256_hex(text) + ".so");
    EXPECT_TRUE(write_file_atomic(artifact.source, text).ok());
    ProcessRequest request;
    request.argv = {"c++", "-O1", "-mf16c", "-shared", "-fPIC", "-w", "-o", artifact.binary, artifact.source};
    const auto output = run_process(request);
    EXPECT_TRUE(output.ok() && output->status.success()) << (output.ok() ? output->err : output.error().message);
    return artifact;
  }

  static std::string failed_gate(const std::string& store) {
    const GateReport report = gates(Problem{33, 35, 4}, handwritten(store), CpuLaunch{"kernel", 1, 0, {}});
    if (report.passed()) return "none";
    return report.gates.empty() ? report.fault.value_or("") : report.gates.back().gate;
  }

  static inline std::filesystem::path directory_;
  static inline std::unique_ptr<CpuBackend> backend_;
};

TEST_F(EdgeCases, GeneratedKernelsAreRightOnRaggedSizesOfEveryLayout) {
  CompilerOptions options;
  options.cache = directory_ / "cache";
  const Compiler compiler(options);
  // One kernel a layout: sizes are run-time arguments of it.
  int tried = 0;
  for (const auto& [layout, element] :
       {std::pair{Layout::nn, ElementType::f16}, std::pair{Layout::tn, ElementType::f16},
        std::pair{Layout::tt, ElementType::f16}, std::pair{Layout::nt, ElementType::f16},
        std::pair{Layout::tn, ElementType::bf16}}) {
    const Recipe recipe =
        cpu_family().starting_points(Problem{65, 97, 130, layout, element}, backend_->machine()).at(0);
    for (const Shape shape : {Shape{1, 1, 1}, Shape{1, 33, 2}, Shape{32, 32, 4}, Shape{33, 31, 67}, Shape{65, 97, 130},
                              Shape{40, 34, 1001}}) {
      const Problem problem{shape.m, shape.n, shape.k, layout, element};
      const auto candidate = generate(recipe, problem, backend_->machine());
      if (!candidate.ok()) continue;
      const auto artifact = compiler.compile(*candidate);
      ASSERT_TRUE(artifact.ok()) << artifact.error().message;
      const GateReport report = gates(problem, *artifact, std::get<CpuLaunch>(candidate->launch));
      EXPECT_TRUE(report.passed()) << to_string(problem) << " " << report.gates.back().gate << ": "
                                   << report.gates.back().detail;
      EXPECT_EQ(report.gates.size(), 15u);
      ++tried;
    }
  }
  EXPECT_GE(tried, 20);
}

TEST_F(EdgeCases, AnHonestKernelPasses) { EXPECT_EQ(failed_gate("h = round16(r);"), "none"); }

TEST_F(EdgeCases, OneWrongEdgeIsCaught) {
  struct Wrong {
    const char* what;
    const char* store;
  };
  for (const Wrong& wrong :
       {Wrong{"NaN becomes zero", "h = r == r ? round16(r) : 0;"},
        Wrong{"NaN becomes Inf", "h = r == r ? round16(r) : 0x7c00;"},
        Wrong{"Inf becomes NaN", "h = isinf(r) ? 0x7e00 : round16(r);"},
        Wrong{"Inf becomes the largest number", "h = isinf(r) ? (r > 0 ? 0x7bff : 0xfbff) : round16(r);"},
        Wrong{"infinity loses its sign", "h = isinf(r) ? 0x7c00 : round16(r);"},
        Wrong{"overflow saturates", "h = round16(fminf(fmaxf(r, -65504), 65504)); if (r != r) h = 0x7e00;"},
        Wrong{"65519 overflows", "h = r > 65504 ? 0x7c00 : round16(r);"},
        Wrong{"65521 does not", "h = r >= 65520 && r < 65530 ? 0x7bff : round16(r);"},
        Wrong{"subnormals become zero", "h = round16(r); if ((h & 0x7c00) == 0) h &= 0x8000;"},
        Wrong{"only the least subnormal becomes zero", "h = round16(r); if ((h & 0x7fff) == 1) h = 0;"},
        Wrong{"zero becomes the least subnormal", "h = round16(r); if (h == 0) h = 1;"},
        Wrong{"a signalling NaN becomes Inf", "h = round16(r); if (r != r) h = 0x7c00;"}}) {
    EXPECT_NE(failed_gate(wrong.store), "none") << wrong.what;
  }
}

TEST_F(EdgeCases, EitherZeroIsRight) {
  EXPECT_EQ(failed_gate("h = round16(r); if ((h & 0x7fff) == 0) h = 0x8000;"), "none");
  EXPECT_EQ(failed_gate("h = round16(r); if ((h & 0x7fff) == 0) h = 0;"), "none");
}

TEST_F(EdgeCases, AnyNanIsRightWhereOneIsExpected) {
  for (const char* nan : {"0x7e00", "0xfe00", "0x7c01", "0xffff"}) {
    EXPECT_EQ(failed_gate(std::string("h = r == r ? round16(r) : ") + nan + ";"), "none") << nan;
  }
}

}  // namespace
}  // namespace warpsmith
