// Endurance: the first starting point of every family is launched 10,000 times back to back. No launch hangs, and what
// the last one leaves has the same bits as what the first one left.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <map>
#include <thread>
#include <vector>

#include "base/file.h"
#include "codegen/generate.h"
#include "evaluate/cuda/cuda_kernel.h"
#include "evaluate/cuda/device_work.h"
#include "evaluate/cuda/machine_facts.h"
#include "gpu_fixture.h"

namespace warpsmith {
namespace {

constexpr int kLaunches = 10'000, kBetweenLooks = 1000;
constexpr double kLookSeconds = 20;  // kBetweenLooks launches that take longer hang
constexpr double kWallSeconds = 60;  // of all cases
constexpr std::uint16_t kPoison = 0x7fab;

const std::map<std::string, std::vector<std::string>> kShapes = {
    {"sm90", {"512x512x512 tn", "64x128x8192 nn", "1000x904x776 tt f16 f32 scaled ld=1008,784,920"}},
    {"sm80", {"512x512x512 nn", "201x141x1001 tn bf16", "96x4096x640 nt"}},
    {"tiny", {"64x64x64 nn", "128x256x2048 nt", "33x65x7 nn bf16"}},
    {"skinny", {"16x4096x4096 tn", "7x1001x3001 tn", "4097x3x515 nt bf16"}}};

double total_seconds = 0;

class Endurance : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    WARPSMITH_NEED_GPU(started_);
    start_ = std::chrono::steady_clock::now();
  }
  void TearDown() override { total_seconds += seconds(); }
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

  // A kernel that hangs cannot be stopped but with its process.
  static void wait(cudaStream_t stream, const std::string& what) {
    const auto start = std::chrono::steady_clock::now();
    for (;;) {
      const cudaError_t status = cudaStreamQuery(stream);
      if (status != cudaErrorNotReady) {
        cuda::check(status, "launching");
        return;
      }
      if (std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() > kLookSeconds) {
        fmt::print(stderr, "{}: {} launches have not ended in {} s: it hangs\n", what, kBetweenLooks, kLookSeconds);
        std::_Exit(1);
      }
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  }

  static std::vector<std::uint16_t> read(const cuda::DeviceBuffer& c) {
    std::vector<std::uint16_t> bits(c.bytes() / sizeof(std::uint16_t));
    cuda::check(cudaMemcpy(bits.data(), c.data(), c.bytes(), cudaMemcpyDeviceToHost), "cudaMemcpy");
    return bits;
  }

  Status started_ = cuda::start_device(0);
  std::chrono::steady_clock::time_point start_;
};

void endure(const Problem& problem, const Recipe& recipe, const Machine& machine,
            void (*wait)(cudaStream_t, const std::string&),
            std::vector<std::uint16_t> (*read)(const cuda::DeviceBuffer&)) {
  const Result<Candidate> candidate = generate(recipe, problem, machine);
  ASSERT_TRUE(candidate.ok()) << candidate.error().message;
  const Result<Artifact> artifact = test_compiler().compile(*candidate);
  ASSERT_TRUE(artifact.ok()) << artifact.error().message;
  const auto bytes = [](std::int64_t elements) { return static_cast<std::size_t>(elements) * sizeof(std::uint16_t); };
  const cuda::DeviceBuffer a(bytes(problem.a_extent())), b(bytes(problem.b_extent())), c(bytes(problem.c_extent()));
  const cuda::Stream stream = cuda::make_stream();
  const InputSpec spec{InputKind::normal, 1, problem.m, problem.n, problem.k, problem.element};
  cuda::OperandSet operands{a.as<std::uint16_t>(), b.as<std::uint16_t>(), c.as<std::uint16_t>()};
  operands.alpha = problem.scaled() ? -1.0F : 1.0F;
  cuda::fill_input(spec, cuda::Matrix::a, problem.a_is_k_major(), operands.a, stream.get(), problem.a_ld());
  cuda::fill_input(spec, cuda::Matrix::b, problem.b_is_k_major(), operands.b, stream.get(), problem.b_ld());
  const CudaLaunch& launch = std::get<CudaLaunch>(candidate->launch);
  cuda::DeviceBuffer workspace;
  if (launch.workspace_bytes > 0) {
    workspace = cuda::DeviceBuffer(static_cast<std::size_t>(launch.workspace_bytes));
    cuda::check(cudaMemset(workspace.data(), 0, workspace.bytes()), "cudaMemset");
  }
  cuda::CudaKernel kernel(read_file(artifact->binary).value(), launch, problem.element);
  const std::string what = to_string(problem) + " " + to_short_string(recipe);
  const auto poison = [&] { cuda::set_pattern(operands.c, problem.c_extent(), kPoison, stream.get()); };

  poison();
  kernel.launch(operands, workspace.data(), false, stream.get());
  wait(stream.get(), what);
  const std::vector<std::uint16_t> first = read(c);
  // Poison before every look: what is compared in the end, one of the last launches wrote.
  for (int done = 0; done < kLaunches; done += kBetweenLooks) {
    poison();
    for (int i = 0; i < kBetweenLooks; ++i) kernel.launch(operands, workspace.data(), false, stream.get());
    wait(stream.get(), what);
  }
  const std::vector<std::uint16_t> last = read(c);
  std::int64_t unwritten = 0, different = 0;
  for (std::int64_t i = 0; i < problem.m; ++i) {
    for (std::int64_t j = 0; j < problem.n; ++j) {
      const auto at = static_cast<std::size_t>(i * problem.c_ld() + j);
      unwritten += last[at] == kPoison ? 1 : 0;
      different += last[at] != first[at] ? 1 : 0;
    }
  }
  EXPECT_EQ(unwritten, 0);
  if (candidate->order_nondeterministic) {
    fmt::print("{}: {} elements of {} differ, as declared: {}\n", what, different, problem.m * problem.n,
               candidate->nondeterminism_reason);
  } else {
    EXPECT_EQ(different, 0) << "after " << kLaunches << " launches";
  }
}

TEST_P(Endurance, TenThousandLaunchesLeaveTheSameBits) {
  const Machine machine = cuda::describe_device(0);
  const Family* family = find_family(GetParam());
  ASSERT_NE(family, nullptr);
  for (const std::string& shape : kShapes.at(GetParam())) {
    const Problem problem = test_problem(shape);
    const std::vector<Recipe> points = family->starting_points(problem, machine);
    ASSERT_FALSE(points.empty()) << shape;
    SCOPED_TRACE(shape + " " + to_short_string(points.front()));
    ASSERT_NO_FATAL_FAILURE(endure(problem, points.front(), machine, wait, read));
  }
  EXPECT_LE(total_seconds + seconds(), kWallSeconds) << "in all";
}

INSTANTIATE_TEST_SUITE_P(Families, Endurance, testing::Values("sm90", "sm80", "tiny", "skinny"),
                         [](const auto& each) { return each.param; });

}  // namespace
}  // namespace warpsmith
