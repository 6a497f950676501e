// What explain says, and that it fits the buffer that the header promises.
#include "library/explain.h"

#include <gtest/gtest.h>

namespace warpsmith::library {
namespace {

Machine hopper() {
  Machine machine;
  machine.name = "NVIDIA H200";
  return machine;
}

CallKey key() {
  warpsmith_problem_t problem{};
  problem.m = 64;
  problem.n = 128;
  problem.k = 256;
  problem.op_b = WARPSMITH_OP_T;
  CallKey made;
  EXPECT_FALSE(key_of(problem, made));
  return made;
}

TEST(Explain, OurKernel) {
  Explanation explanation;
  Choice choice;
  choice.source = ChoiceSource::wisdom_nearest;
  choice.recipe = Recipe(sm90_family());
  choice.expected_us = 3.25;
  choice.matched = "64x128x512 tn f16 f32";
  choice.distance = 1;
  choice.baseline = "cublaslt-auto-tn";
  choice.baseline_us = 4;
  explanation.choices = {choice, Choice{}};
  explanation.kernel_key = std::string(64, 'a');
  explanation.arch = "sm_90a";
  explanation.cubin = "pack";
  const nlohmann::json json = explain(key(), explanation, hopper(), WARPSMITH_MODE_OFFLINE, true, true);
  EXPECT_EQ(json["runs"], "kernel");
  EXPECT_EQ(json["source"], "nearest wisdom");
  EXPECT_EQ(json["match"]["entry"], "64x128x512 tn f16 f32");
  EXPECT_EQ(json["match"]["distance"], 1.0);
  EXPECT_EQ(json["match"]["exact"], false);
  EXPECT_EQ(json["recipe"], to_string(*choice.recipe));
  EXPECT_EQ(json["expected_us"], 3.25);
  EXPECT_EQ(json["baseline_us"], 4.0);
  EXPECT_EQ(json["kernel"]["family"], "sm90");
  EXPECT_EQ(json["kernel"]["cubin"], "pack");
  EXPECT_EQ(json["problem"]["op_b"], "T");
  EXPECT_EQ(json["problem"]["ldb"], 256);
  EXPECT_LT(json.dump(1).size(), 8192U);
}

TEST(Explain, CublasLt) {
  Explanation explanation;
  explanation.choices = {Choice{}};
  const nlohmann::json json = explain(key(), explanation, hopper(), WARPSMITH_MODE_SERVER, false, false);
  EXPECT_EQ(json["runs"], "cublaslt");
  EXPECT_EQ(json["mode"], "server");
  EXPECT_TRUE(json["recipe"].is_null());
  EXPECT_TRUE(json["expected_us"].is_null());
  EXPECT_TRUE(json["match"]["entry"].is_null());
}

TEST(Explain, Nothing) {
  Explanation explanation;
  explanation.note = "C has no elements: nothing is launched";
  const nlohmann::json json = explain(key(), explanation, hopper(), WARPSMITH_MODE_OFFLINE, false, false);
  EXPECT_EQ(json["runs"], "nothing");
  EXPECT_EQ(json["note"], explanation.note);
  EXPECT_FALSE(json.contains("recipe"));
}

}  // namespace
}  // namespace warpsmith::library
