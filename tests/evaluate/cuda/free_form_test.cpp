// Free-form candidates on the device: the worked examples through every gate, several kernels in order, and what is
// seen of device variables.
#include <gtest/gtest.h>

#include <map>
#include <numeric>

#include "base/file.h"
#include "codegen/descriptor.h"
#include "compile/cubin.h"
#include "evaluate/cuda/cuda_handles.h"
#include "evaluate/cuda/cuda_kernel.h"
#include "evaluate/cuda/machine_facts.h"
#include "gpu_fixture.h"

namespace warpsmith {
namespace {

// File name -> text of examples/candidates, as they were at configuration.
const std::map<std::string, std::string>& examples() {
  static const std::map<std::string, std::string> kExamples = {
#include "example_texts.inc"
  };
  return kExamples;
}

class ExampleOnDevice : public testing::TestWithParam<std::string> {};

TEST_P(ExampleOnDevice, PassesEveryGate) {
  EvaluatorOptions options;
  options.target = Target::sm80;
  const auto evaluator = Evaluator::start(options);
  WARPSMITH_NEED_GPU(evaluator);
  const std::string& name = GetParam();
  const auto form = parse_candidate(examples().at(name + ".json"), examples().at(name + ".cu"), name + ".json");
  ASSERT_TRUE(form.ok()) << form.error().message;
  const Machine& machine = (*evaluator)->machine();
  int tried = 0;
  for (const char* text : {"64x64x64 nn", "128x128x128 tn", "1x1x1 nn", "1x1x8 tn", "201x141x77 nn", "201x141x72 tn",
                           "77x136x1000 tn bf16", "513x1030x2056 tn", "1000x904x800 nn", "32x4096x4096 nn"}) {
    const Problem problem = test_problem(text);
    const auto reason = inapplicable(*form, problem, machine);
    ASSERT_TRUE(reason.ok()) << reason.error().message;
    if (*reason) continue;
    const auto candidate = instantiate(*form, problem, machine);
    ASSERT_TRUE(candidate.ok()) << candidate.error().message;
    const auto artifact = test_compiler().compile(*candidate);
    ASSERT_TRUE(artifact.ok()) << artifact.error().message;
    const Verdict verdict = (*evaluator)->evaluate(problem, *candidate, *artifact, 0, {0.02, 3});
    EXPECT_NE(verdict.accepted(), nullptr) << text << ": " << verdict.describe();
    ++tried;
  }
  EXPECT_GT(tried, 0) << "no problem is applicable on " << machine.name;
}

INSTANTIATE_TEST_SUITE_P(All, ExampleOnDevice, testing::Values("mma_64x64", "split_k", "wgmma_tma"));

class KernelOnDevice : public testing::Test {
 protected:
  void SetUp() override {
    int count = 0;
    if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) GTEST_SKIP() << "no CUDA GPU";
    machine_ = cuda::describe_device(0);
    stream_ = cuda::make_stream();
    c_ = cuda::DeviceBuffer(4096);
    operands_.c = c_.as<std::uint16_t>();
  }

  std::unique_ptr<cuda::CudaKernel> load(const std::string& source, CudaLaunch launch) {
    Candidate candidate;
    candidate.arch = "sm_" + std::to_string(machine_.compute_capability);
    candidate.source = source;
    const auto artifact = test_compiler().compile(candidate);
    if (!artifact.ok()) throw std::runtime_error(artifact.error().message);
    return std::make_unique<cuda::CudaKernel>(read_file(artifact->binary).value(), std::move(launch), ElementType::f16);
  }

  // One thread of `entry`, which gets C alone.
  static CudaLaunch one_thread(const std::string& entry = "entry") {
    KernelLaunch kernel;
    kernel.entry = entry;
    kernel.arguments = {KernelArgument::pointer_to(Operand::c)};
    return {{kernel}, 0, false};
  }

  void run(cuda::CudaKernel& kernel, void* workspace = nullptr) {
    kernel.launch(operands_, workspace, false, stream_.get());
    cuda::check(cudaStreamSynchronize(stream_.get()), "running the kernel");
  }
  std::vector<int> results(int count) {
    std::vector<int> values(static_cast<std::size_t>(count));
    cuda::check(cudaMemcpy(values.data(), c_.data(), values.size() * sizeof(int), cudaMemcpyDeviceToHost),
                "cudaMemcpy");
    return values;
  }

  Machine machine_;
  cuda::Stream stream_;
  cuda::DeviceBuffer c_;
  cuda::OperandSet operands_;
};

TEST_F(KernelOnDevice, KernelsRunInOrderAndShareTheWorkspace) {
  CudaLaunch launch = one_thread("first");
  launch.kernels[0].arguments = {KernelArgument::workspace_pointer(0), KernelArgument::workspace_pointer(64),
                                 KernelArgument::integer(-7), KernelArgument::number(0.25F)};
  launch.kernels.push_back(launch.kernels[0]);
  launch.kernels[1].entry = "second";
  launch.kernels[1].arguments = {KernelArgument::workspace_pointer(0), KernelArgument::workspace_pointer(64),
                                 KernelArgument::pointer_to(Operand::c)};
  launch.workspace_bytes = 128;
  const auto kernel = load(
      "extern \"C\" __global__ void first(int* w, int* v, int i, float f) { w[0] = i; v[0] = int(f * 100); }\n"
      "extern \"C\" __global__ void second(int* w, int* v, int* c) { c[0] = w[0] * 1000 + v[0]; }\n",
      launch);
  cuda::DeviceBuffer one(128), other(128);
  for (int round = 0; round < 3; ++round) {
    for (void* workspace : {one.data(), other.data()}) {
      cuda::check(cudaMemset(c_.data(), 0, 64), "cudaMemset");
      run(*kernel, workspace);
      EXPECT_EQ(results(1)[0], -7 * 1000 + 25);
    }
  }
}

// Parameters are kept per address: other addresses must not get them.
TEST_F(KernelOnDevice, ParametersFollowTheAddresses) {
  const auto kernel = load("extern \"C\" __global__ void entry(int* c) { c[0] += 1; }\n", one_thread());
  cuda::check(cudaMemset(c_.data(), 0, 64), "cudaMemset");
  std::uint16_t* const base = operands_.c;
  for (int i = 0; i < 12; ++i) {
    operands_.c = base + 2 * (i % 3);
    run(*kernel);
  }
  operands_.c = base;
  EXPECT_EQ(results(3), (std::vector<int>{4, 4, 4}));
}

// Variables of every kind of linkage are found, seen to change, and put back.
TEST_F(KernelOnDevice, VariablesOfEveryKindAreWatchedAndRestored) {
  const std::string head =
      "namespace { __device__ int unnamed = 3; }\nstatic __device__ int hidden = 3;\n__device__ int plain = 3;\n"
      "template <class T> __device__ T generic = 3;\n__constant__ int fixed = 3;\nconstexpr int kUnused = 9;\n";
  for (const std::string& name : {std::string("unnamed"), std::string("hidden"), std::string("plain"),
                                  std::string("generic<int>"), std::string("local")}) {
    const auto kernel =
        load(head + "extern \"C\" __global__ void entry(int* c) { static int local = 3; c[0] = fixed + " + name +
                 "++; c[1] = local; }\n",
             one_thread());
    ASSERT_FALSE(kernel->globals().empty()) << name;
    run(*kernel);
    kernel->globals().remember_first(stream_.get());
    EXPECT_TRUE(kernel->globals().compare(stream_.get()).passed) << name;
    run(*kernel);
    EXPECT_EQ(results(1)[0], 7) << name;
    const CheckReport changed = kernel->globals().compare(stream_.get());
    EXPECT_FALSE(changed.passed) << name;
    EXPECT_NE(changed.detail.find("changed after the first launch"), std::string::npos) << changed.detail;
    EXPECT_NE(changed.detail.find(name.substr(0, name.find('<'))), std::string::npos) << changed.detail;
    kernel->globals().restore(stream_.get());
    run(*kernel);
    EXPECT_EQ(results(1)[0], 6) << name;
    EXPECT_TRUE(kernel->globals().compare(stream_.get()).passed) << name;
  }
}

TEST_F(KernelOnDevice, ATableFilledAtTheFirstLaunchIsNoState) {
  const auto kernel = load(
      "__device__ int table[64];\n__device__ int ready;\n"
      "extern \"C\" __global__ void entry(int* c) {\n"
      "  if (!ready) { for (int i = 0; i < 64; ++i) table[i] = i * i; ready = 1; }\n"
      "  c[0] = table[5];\n}\n",
      one_thread());
  run(*kernel);
  kernel->globals().remember_first(stream_.get());
  for (int i = 0; i < 3; ++i) run(*kernel);
  EXPECT_EQ(results(1)[0], 25);
  const CheckReport report = kernel->globals().compare(stream_.get());
  EXPECT_TRUE(report.passed) << report.detail;
}

TEST_F(KernelOnDevice, LaunchesThatDoNotFitAreRefused) {
  const std::string source = "extern \"C\" __global__ void entry(int* c) { c[0] = 1; }\n";
  CudaLaunch extra = one_thread(), narrow = one_thread(), unknown = one_thread("missing");
  extra.kernels[0].arguments.push_back(KernelArgument::integer(1));
  narrow.kernels[0].arguments[0] = KernelArgument::number(1);
  for (const CudaLaunch& launch : {extra, narrow, unknown}) EXPECT_THROW(load(source, launch), cuda::CudaError);
  CudaLaunch second_is_wrong = one_thread();
  second_is_wrong.kernels.push_back(unknown.kernels[0]);
  EXPECT_THROW(load(source, second_is_wrong), cuda::CudaError);
}

}  // namespace
}  // namespace warpsmith
