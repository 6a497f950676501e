// What tensors hold, and which results are right.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "task/data.h"

namespace warpsmith::task {
namespace {

Tensor vector_of(TensorType type, std::int64_t count) {
  return {"y", type, {count}, count, count * size_of(type), true};
}

std::vector<std::byte> stored(TensorType type, const std::vector<double>& values) {
  std::vector<std::byte> data(values.size() * static_cast<std::size_t>(size_of(type)));
  for (std::size_t i = 0; i < values.size(); ++i)
    store_element(data.data(), type, static_cast<std::int64_t>(i), values[i]);
  return data;
}

bool right(TensorType type, const Tolerance& tolerance, double got, double expected, double magnitude = 1) {
  const auto data = stored(type, {got});
  return judge_output(vector_of(type, 1), tolerance, data.data(), {expected}, {magnitude}).passed;
}

constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInf = std::numeric_limits<double>::infinity();

TEST(Judge, RoundsTheBoundOutwards) {
  const Tolerance none{false, 0, 0, false};
  // Between 1 and 1 + 2^-10 the nearest f16 alone is right; at the tie both are when there is any error.
  EXPECT_TRUE(right(TensorType::f16, none, 1, 1 + 0x1p-12));
  EXPECT_FALSE(right(TensorType::f16, none, 1 + 0x1p-10, 1 + 0x1p-12));
  const Tolerance small{false, 1e-3, 0, false};
  EXPECT_TRUE(right(TensorType::f16, small, 1 + 0x1p-10, 1 + 0x1p-12));
  EXPECT_FALSE(right(TensorType::f16, small, 1 + 3 * 0x1p-10, 1));
  EXPECT_TRUE(right(TensorType::bf16, none, 3.140625, 3.14159));
  EXPECT_FALSE(right(TensorType::bf16, none, 3.125, 3.14159));
}

TEST(Judge, TellsNanAndInfinity) {
  for (const TensorType type : {TensorType::f16, TensorType::bf16, TensorType::f32}) {
    const Tolerance loose{false, 0.5, 0.5, false};
    EXPECT_TRUE(right(type, loose, kNan, kNan));
    EXPECT_FALSE(right(type, loose, 1, kNan));
    EXPECT_FALSE(right(type, loose, kNan, 1));
    EXPECT_TRUE(right(type, loose, kInf, kInf));
    EXPECT_FALSE(right(type, loose, -kInf, kInf));
    EXPECT_FALSE(right(type, loose, kInf, 1));
  }
  // 65519 rounds to the largest number, 65521 to infinity.
  const Tolerance none{false, 0, 0, false};
  EXPECT_TRUE(right(TensorType::f16, none, 65504, 65519));
  EXPECT_FALSE(right(TensorType::f16, none, kInf, 65519));
  EXPECT_TRUE(right(TensorType::f16, none, kInf, 65521));
  const Tolerance some{false, 1e-4, 0, false};
  EXPECT_TRUE(right(TensorType::f16, some, 65504, 65521));
}

TEST(Judge, ScalesTheAbsolutePart) {
  const Tolerance scaled{false, 0, 1e-3, true};
  EXPECT_TRUE(right(TensorType::f32, scaled, 0.05, 0, 100));
  EXPECT_FALSE(right(TensorType::f32, scaled, 0.05, 0, 10));
  EXPECT_FALSE(right(TensorType::f32, scaled, 0.05, 0, kNan));  // an error that is no number allows nothing
}

TEST(Judge, WholeNumbersAndExactOutputsAreExact) {
  const Tolerance exact{true, 0, 0, false};
  EXPECT_TRUE(right(TensorType::i32, exact, 16777217, 16777217));
  EXPECT_FALSE(right(TensorType::i32, exact, 16777216, 16777217));
  EXPECT_TRUE(right(TensorType::f16, exact, 0.1, 0.1));
  EXPECT_FALSE(right(TensorType::f16, exact, 0.1001, 0.1));
}

TEST(Judge, NamesTheFirstBadElement) {
  Tensor tensor{"y", TensorType::f32, {2, 3}, 6, 24, true};
  const auto data = stored(TensorType::f32, {1, 1, 1, 1, 2, 3});
  const CheckReport report = judge_output(tensor, {false, 1e-6, 0, false}, data.data(), {1, 1, 1, 1, 1, 1}, {});
  EXPECT_FALSE(report.passed);
  EXPECT_EQ(report.bad, 2);
  EXPECT_NE(report.detail.find("2 of 6 elements of y are wrong; the first, y[1, 1], is 2, expected 1"),
            std::string::npos)
      << report.detail;
  EXPECT_GT(report.worst_error, 1e5);
}

Task small_task() {
  Task task;
  task.name = "small";
  task.constants = {{"count", false}};
  const auto count = *Expression::parse("count", task.integer_names());
  Input x{"x", TensorType::f16, {count}, Values::normal, 2, 5, {}, {}, false};
  Input w{"w", TensorType::f32, {count}, Values::positive, 1, 0, {}, {}, true};
  Input index{"i", TensorType::i32, {count}, Values::integers, 1, 0, Expression(-3), count, true};
  task.inputs = {x, w, index};
  task.outputs = {{"y", TensorType::f16, {count}, {}}};
  task.settings = {{{20000}, {}, true, ""}};
  return task;
}

TEST(Inputs, FollowTheirDistributions) {
  const Task task = small_task();
  const Instance instance = instance_of(task, 0);
  const auto inputs = make_inputs(instance, InputKind::normal, 7);
  const auto mean_of = [](const std::vector<double>& values) {
    double sum = 0;
    for (const double value : values) sum += value;
    return sum / static_cast<double>(values.size());
  };
  const auto x = widen(instance.tensors[0], inputs[0].data());
  EXPECT_NEAR(mean_of(x), 5, 0.1);
  double spread = 0;
  for (const double value : x) spread += (value - 5) * (value - 5);
  EXPECT_NEAR(std::sqrt(spread / 20000), 2, 0.1);
  const auto w = widen(instance.tensors[1], inputs[1].data());
  EXPECT_NEAR(mean_of(w), 0.5, 0.02);
  const auto index = widen(instance.tensors[2], inputs[2].data());
  EXPECT_GE(*std::min_element(index.begin(), index.end()), -3);
  EXPECT_LE(*std::max_element(index.begin(), index.end()), 19999);
}

TEST(Inputs, MoveAwayFromZeroByTheirOffset) {
  Task task = small_task();
  task.inputs[0].offset = 1024;
  const Instance instance = instance_of(task, 0);
  const auto x = widen(instance.tensors[0], make_inputs(instance, InputKind::offset, 7)[0].data());
  for (const double value : x) {
    ASSERT_GT(value, 1024 + 5 - 12.5);
    ASSERT_LT(value, 1024 + 5 + 12.5);
  }
  EXPECT_GT(*std::max_element(x.begin(), x.end()) - *std::min_element(x.begin(), x.end()), 8)
      << "and keep their spread";
  const auto w = widen(instance.tensors[1], make_inputs(instance, InputKind::offset, 7)[1].data());
  EXPECT_LE(*std::max_element(w.begin(), w.end()), 1) << "a fixed input stays";
}

TEST(Inputs, ForTimingFollowTheSameDistributions) {
  const Task task = small_task();
  const Instance instance = instance_of(task, 0);
  const TimedInputs timed(instance, 3);
  const auto one = timed.make(7), other = timed.make(8);
  EXPECT_EQ(one, timed.make(7));
  const auto equal = [](const std::vector<double>& a, const std::vector<double>& b) {
    int count = 0;
    for (std::size_t i = 0; i < a.size(); ++i) count += a[i] == b[i] ? 1 : 0;
    return count;
  };
  const auto of = [&](const std::vector<std::vector<std::byte>>& inputs, std::size_t i) {
    return widen(instance.tensors[i], inputs[i].data());
  };
  double sum = 0, squares = 0;
  for (const double value : of(one, 0)) {
    sum += value;
    squares += (value - 5) * (value - 5);
  }
  EXPECT_NEAR(sum / 20000, 5, 0.1);
  EXPECT_NEAR(std::sqrt(squares / 20000), 2, 0.1);
  EXPECT_LT(equal(of(one, 0), of(other, 0)), 200) << "chance alone";
  for (const double value : of(one, 1)) {
    ASSERT_GE(value, 0);
    ASSERT_LE(value, 1);
  }
  EXPECT_LT(equal(of(one, 1), of(other, 1)), 20);
  const auto index = of(one, 2);
  EXPECT_GE(*std::min_element(index.begin(), index.end()), -3);
  EXPECT_LE(*std::max_element(index.begin(), index.end()), 19999);
  EXPECT_LT(equal(index, of(other, 2)), 20);
}

TEST(Inputs, AreDeterminedAndFixedOnesStay) {
  const Task task = small_task();
  const Instance instance = instance_of(task, 0);
  const auto one = make_inputs(instance, InputKind::normal, 7), same = make_inputs(instance, InputKind::normal, 7);
  EXPECT_EQ(one, same);
  const auto other = make_inputs(instance, InputKind::normal, 8);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_NE(one[i], other[i]);
  const auto special = make_inputs(instance, InputKind::special, 7);
  const auto x = widen(instance.tensors[0], special[0].data());
  EXPECT_TRUE(std::isnan(x.front()));
  EXPECT_EQ(x.back(), kInf);
  for (const double value : widen(instance.tensors[1], special[1].data())) {
    ASSERT_GE(value, 0);
    ASSERT_LE(value, 1);
  }
}

}  // namespace
}  // namespace warpsmith::task
