// The references that ship: known vectors give known values. Each runs as the evaluator runs it.
#include "task/reference.h"

#include <cmath>
#include <limits>

#include "fixture.h"
#include "task/data.h"

namespace warpsmith::task {
namespace {

using Values = std::vector<double>;

class ReferenceTest : public SessionTest {
 protected:
  // Outputs of a shipped reference on these inputs, at constants of our own.
  static std::vector<Values> run(const std::string& name, const std::vector<std::int64_t>& integers,
                                 const std::vector<double>& reals, const std::vector<Values>& inputs) {
    auto task = load_task(std::filesystem::path(WARPSMITH_TASKS) / name);
    EXPECT_TRUE(task.ok()) << task.error().message;
    if (!task.ok()) return {};
    task->settings = {{integers, reals, true, ""}};
    task->traffic_bytes.reset();
    const Compiler compiler({.cache = directory_ / "cache"});
    const auto object = compiler.compile(reference_candidate(*task, Machine()));
    EXPECT_TRUE(object.ok()) << object.error().message;
    if (!object.ok()) return {};
    const Instance instance = instance_of(*task, 0);
    Dataset data;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      EXPECT_EQ(instance.tensors[i].elements, static_cast<std::int64_t>(inputs[i].size())) << name;
      auto& bytes = data.inputs.emplace_back(static_cast<std::size_t>(instance.tensors[i].bytes));
      for (std::size_t j = 0; j < inputs[i].size(); ++j) {
        store_element(bytes.data(), instance.tensors[i].type, static_cast<std::int64_t>(j), inputs[i][j]);
      }
    }
    const Status done = make_cpp_reference(object->binary)->complete(instance, data);
    EXPECT_TRUE(done.ok()) << done.error().message;
    return data.expected;
  }

  static void expect_near(const Values& got, const Values& expected, double error = 1e-9) {
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], error) << i;
  }
};

TEST_F(ReferenceTest, Softmax) {
  // exp of 0 and of 1, scaled by 2: 1 and e^2 of their sum.
  const double sum = 1 + std::exp(2.0);
  expect_near(run("softmax", {2, 2}, {2.0}, {{0, 1, 3, 3}})[0], {1 / sum, std::exp(2.0) / sum, 0.5, 0.5});
}

TEST_F(ReferenceTest, Norms) {
  // mean of squares of 3 and 4 is 12.5; with 12.5 more the root is 5.
  expect_near(run("rmsnorm", {1, 2}, {12.5}, {{3, 4}, {1, 2}})[0], {0.6, 1.6});
  // mean 3, variance 1, with 3 more the root is 2.
  expect_near(run("layernorm", {1, 2}, {3.0}, {{2, 4}, {1, 2}, {0.5, -1}})[0], {0.0, 0.0});
  expect_near(run("layernorm", {1, 2}, {3.0}, {{2, 4}, {4, 1}, {0, 0}})[0], {-2.0, 0.5});
}

TEST_F(ReferenceTest, Activations) {
  expect_near(run("gelu", {1, 2, 0}, {}, {{0, 1}, {0, 0}})[0], {0, 0.8413447460685429});  // Phi(1)
  expect_near(run("gelu", {1, 1, 1}, {}, {{0.5}, {0.5}})[0], {0.8411919906082768});
  // silu(0) = 0; 2 / (1 + e^-2) * 3
  expect_near(run("swiglu", {1, 2}, {1.0}, {{0, 2, 5, 3}})[0], {0, 6 / (1 + std::exp(-2.0))});
  expect_near(run("elementwise_chain", {1, 3}, {2.0, 3.0}, {{-1, 0.5, 4}, {0, 0.5, 0}, {1, 1, -1}})[0], {1, 3, 2});
}

TEST_F(ReferenceTest, Movements) {
  expect_near(run("transpose", {2, 3}, {}, {{1, 2, 3, 4, 5, 6}})[0], {1, 4, 2, 5, 3, 6}, 0);
  expect_near(run("embedding", {3, 2, 2}, {}, {{1, 2, 3, 4, 5, 6}, {2, 0}})[0], {5, 6, 1, 2}, 0);
  expect_near(run("cast_scale", {2}, {0.5}, {{3, -8}})[0], {1.5, -4}, 0);
  const auto top = run("top_k", {1, 5, 3}, {}, {{1, 7, 3, 7, 2}});
  expect_near(top[0], {7, 7, 3}, 0);
  expect_near(top[1], {1, 3, 2}, 0);
}

TEST_F(ReferenceTest, Sums) {
  expect_near(run("row_sum", {2, 3}, {2.0}, {{1, 2, 3, 4, 5, -6}})[0], {12, 6});
  expect_near(run("column_sum", {2, 3}, {2.0}, {{1, 2, 3, 4, 5, -6}})[0], {10, 14, -6});
  expect_near(run("batched_gemv", {2, 2, 2}, {0.5}, {{1, 2, 3, 4, 5, 6, 7, 8}, {1, 1, 2, 0}})[0], {1.5, 3.5, 5, 7});
  // A quarter turn of (1, 2) and no turn of (3, 4): the halves are {1, 3} and {2, 4}.
  expect_near(run("rotary", {1, 1, 4}, {}, {{1, 3, 2, 4}, {0, 1}, {1, 0}})[0], {-2, 3, 1, 4});
}

}  // namespace
}  // namespace warpsmith::task
