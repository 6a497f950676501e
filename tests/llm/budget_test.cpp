// Models, prices and limits as the command line gives them.
#include "llm/budget.h"

#include <gtest/gtest.h>

namespace warpsmith::llm {
namespace {

TEST(Models, HaveWeights) {
  EXPECT_EQ(parse_model("gpt")->weight, 1);
  EXPECT_EQ(parse_model("org/model-7b:2.5")->name, "org/model-7b");
  EXPECT_EQ(parse_model("org/model-7b:2.5")->weight, 2.5);
  EXPECT_EQ(parse_model("llama3:8b")->name, "llama3:8b") << "no number behind the colon";
  EXPECT_EQ(parse_model("llama3:8b:3")->name, "llama3:8b");
  for (const char* text : {"", ":2", "x:0", "x:-1"}) EXPECT_FALSE(parse_model(text)) << text;
}

TEST(Models, HavePrices) {
  std::vector<ModelChoice> models = {{"a", 1, 0, 0}, {"b=c", 1, 0, 0}};
  ASSERT_TRUE(apply_price("1,2", models));
  ASSERT_TRUE(apply_price("b=c=0.5,4", models));
  EXPECT_EQ(cost_of(models[0], {1'000'000, 1'000'000, false}), 3);
  EXPECT_EQ(cost_of(models[1], {2'000'000, 0, false}), 1);
  for (const char* text : {"", "1", "1,x", "-1,2", "z=1,2", "1,2,3", "nan,1"})
    EXPECT_FALSE(apply_price(text, models)) << text;
}

TEST(Spending, EndsAtEachLimit) {
  Budget requests({.requests = 2});
  EXPECT_TRUE(requests.take_request());
  EXPECT_TRUE(requests.take_request());
  EXPECT_FALSE(requests.take_request());
  EXPECT_EQ(requests.spent().requests, 2);
  EXPECT_EQ(requests.exhausted(), "2 requests");
  Budget tokens({.tokens = 10});
  tokens.charge({4, 5, true}, 0);
  EXPECT_TRUE(tokens.take_request());
  tokens.charge({1, 0, false}, 0);
  EXPECT_FALSE(tokens.take_request());
  EXPECT_TRUE(tokens.spent().estimated);
  Budget pending({.tokens = 10, .cost = 1});
  EXPECT_FALSE(pending.take_request({4, 6, true}, 0)) << "with what will be charged";
  EXPECT_FALSE(pending.take_request({1, 0, true}, 1));
  EXPECT_TRUE(pending.take_request({4, 5, true}, 0.9));
  EXPECT_EQ(pending.spent().prompt_tokens, 0) << "which this is not";
  Budget cost({.cost = 0.5});
  cost.charge({}, 0.6);
  EXPECT_EQ(cost.exhausted(), "a cost of 0.5");
  EXPECT_TRUE(Budget({}).exhausted().empty());
}

}  // namespace
}  // namespace warpsmith::llm
