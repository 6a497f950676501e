// The CUDA candidates that ship with tasks: every one compiles for sm_90 at every setting without spilling, and
// computes what its reference says in an emulation on the CPU.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "compile/compile.h"
#include "emulation.h"
#include "evaluate/inputs.h"
#include "task/candidates.h"
#include "task/data.h"
#include "task/reference.h"
#include "task/task.h"

namespace warpsmith::task {
namespace {

class CudaCandidates : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    directory_ = std::filesystem::temp_directory_path() / ("warpsmith_task_cuda_" + std::to_string(getpid()));
    std::filesystem::create_directories(directory_);
    auto task = load_task(std::filesystem::path(WARPSMITH_TASKS) / GetParam());
    ASSERT_TRUE(task.ok()) << task.error().message;
    task_ = std::move(*task);
    auto candidates = load_candidates(task_, task_.directory / "candidates", Target::sm90);
    ASSERT_TRUE(candidates.ok()) << candidates.error().message;
    candidates_ = std::move(*candidates);
    ASSERT_FALSE(candidates_.empty()) << "no CUDA candidate";
    machine_ = *machine_of_architecture("sm_90");
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  Compiler compiler() const { return Compiler({.cache = directory_ / "cache"}); }

  std::filesystem::path directory_;
  Task task_;
  std::vector<TaskCandidate> candidates_;
  Machine machine_;
};

TEST_P(CudaCandidates, CompileWithoutSpilling) {
  const Compiler compiler = this->compiler();
  for (const TaskCandidate& one : candidates_) {
    for (const int setting : task_.settings_on(Target::sm90)) {
      const auto made = make_candidate(one.form, instance_of(task_, setting), one.chosen, machine_);
      ASSERT_TRUE(made.ok()) << made.error().message;
      const auto compiled = compiler.compile(*made);
      ASSERT_TRUE(compiled.ok()) << one.short_name() << ": " << compiled.error().message;
      EXPECT_TRUE(compiled->resources.clean()) << one.short_name() << ": " << compiled->log;
    }
  }
}

// A slab as the evaluator makes it, outputs full of NaN.
std::vector<std::byte> slab_with(const SlabLayout& layout, const Dataset& data) {
  std::vector<std::byte> slab(static_cast<std::size_t>(layout.bytes), std::byte{0xff});
  for (std::size_t i = 0; i < data.inputs.size(); ++i) {
    std::memcpy(slab.data() + layout.tensors[i], data.inputs[i].data(), data.inputs[i].size());
  }
  return slab;
}

// Everything but outputs and workspace is as it was.
bool untouched(const Instance& instance, const SlabLayout& layout, std::vector<std::byte> before,
               std::vector<std::byte> after) {
  const auto clear = [&](std::int64_t offset, std::int64_t bytes) {
    for (auto* slab : {&before, &after}) std::fill_n(slab->begin() + offset, bytes, std::byte{0});
  };
  for (std::size_t i = 0; i < instance.tensors.size(); ++i) {
    if (instance.tensors[i].output) clear(layout.tensors[i], instance.tensors[i].bytes);
  }
  clear(layout.workspace, layout.workspace_bytes);
  return before == after;
}

void check(const EmulatedKernels& kernels, const Instance& instance, const SlabLayout& layout, const Dataset& data,
           const std::string& where) {
  const auto before = slab_with(layout, data);
  auto slab = before;
  kernels.run(slab.data());
  EXPECT_TRUE(untouched(instance, layout, before, slab)) << where << ": writes went astray";
  for (std::size_t i = data.inputs.size(); i < instance.tensors.size(); ++i) {
    const std::size_t output = i - data.inputs.size();
    const CheckReport report =
        judge_output(instance.tensors[i], instance.task->outputs[output].tolerance, slab.data() + layout.tensors[i],
                     data.expected[output], data.magnitudes[output]);
    EXPECT_TRUE(report.passed) << where << ": " << report.detail;
  }
}

TEST_P(CudaCandidates, ComputeWhatTheReferenceSays) {
  const auto object = compiler().compile(reference_candidate(task_, Machine()));
  ASSERT_TRUE(object.ok()) << object.error().message;
  const auto reference = make_cpp_reference(object->binary);
  int runs = 0;
  for (const int setting : task_.settings_on(Target::sm90)) {
    if (task_.settings[static_cast<std::size_t>(setting)].timed) continue;  // too large for this
    const Instance instance = instance_of(task_, setting);
    std::vector<InputKind> kinds = {InputKind::normal};
    if (runs == 0) kinds.insert(kinds.end(), task_.data.begin(), task_.data.end());
    for (const TaskCandidate& one : candidates_) {
      const auto made = make_candidate(one.form, instance, one.chosen, machine_);
      ASSERT_TRUE(made.ok()) << made.error().message;
      const auto& launch = std::get<CudaLaunch>(made->launch);
      const EmulatedKernels kernels(made->source, launch, directory_, fmt::format("{}{}", GetParam(), runs++));
      ASSERT_FALSE(HasFailure());
      for (const InputKind kind : kinds) {
        Dataset data;
        data.inputs = make_inputs(instance, kind, 5);
        const Status done = reference->complete(instance, data);
        ASSERT_TRUE(done.ok()) << done.error().message;
        check(kernels, instance, slab_of(instance, launch.workspace_bytes), data,
              fmt::format("{} at {} on {} data", one.short_name(), instance.describe(), warpsmith::to_string(kind)));
      }
    }
  }
  EXPECT_GE(runs, 3);
}

std::vector<std::string> task_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(WARPSMITH_TASKS)) {
    if (entry.is_directory()) names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

INSTANTIATE_TEST_SUITE_P(Tasks, CudaCandidates, testing::ValuesIn(task_names()),
                         [](const auto& tested) { return tested.param; });

}  // namespace
}  // namespace warpsmith::task
