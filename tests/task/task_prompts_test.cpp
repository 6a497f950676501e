// What language models are told of a task, compared with golden files. WARPSMITH_UPDATE_GOLDEN=1 writes those anew.
#include "task/models/task_prompts.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "../llm/golden.h"
#include "../llm/machines.h"
#include "task/task.h"

namespace warpsmith::task {
namespace {

class TaskGolden : public testing::Test {
 protected:
  TaskGolden() {
    auto task = load_task(std::filesystem::path(WARPSMITH_TASKS) / "softmax");
    auto prompts = TaskPrompts::find(WARPSMITH_PROMPTS);
    if (!task || !prompts) throw std::runtime_error(task ? prompts.error().message : task.error().message);
    task_ = std::move(*task);
    prompts_ = std::move(*prompts);
  }

  Task task_;
  TaskPrompts prompts_;
};

TEST_F(TaskGolden, OfACudaTarget) {
  const std::vector<ShownCandidate> exemplars = {
      {"__global__ void slow() {}\n", "{\"warpsmith_candidate\": 1}\n", 40, 0.5},
      {"__global__ void fast() {}\n", "{\"warpsmith_candidate\": 1}\n", 20, 1}};
  llm::expect_golden(
      "cuda.txt",
      propose(prompts_, task_, Target::sm90, llm::test_gpu(), exemplars, {"fast: wrong (bound/normal): y[0] = 1"},
              {{"notes.md:7", "A row fits the registers of a block.\n"}}, "cute/, cutlass/"));
}

TEST_F(TaskGolden, OfTheCpuTargetThatKnowsNothing) {
  llm::expect_golden("cpu.txt", propose(prompts_, task_, Target::cpu, llm::test_cpu(), {}, {}));
}

TEST_F(TaskGolden, OfTheRewardChecker) {
  const auto candidate =
      parse_task_candidate(task_, "extern \"C\" void softmax(const Arguments& t) { t.y[0] = 0; }\n",
                           "{\"warpsmith_candidate\": 1, \"source\": \"answer.cpp\", \"entry\": \"softmax\"}");
  ASSERT_TRUE(candidate.ok()) << candidate.error().message;
  ASSERT_EQ(find_suspicions(task_, *candidate).size(), 1u) << "x is not read, although there is one in extern";
  llm::expect_golden("checker.txt",
                     check_prompt(prompts_, task_, Target::cpu, *candidate, 3, "9 times faster than the best before",
                                  find_suspicions(task_, *candidate), {{"zero_output", "writes zeros"}}));
}

}  // namespace
}  // namespace warpsmith::task
