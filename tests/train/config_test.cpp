// The configuration file: complete, checked, and the same after a round trip.
#include "train/config.h"

#include <gtest/gtest.h>

namespace warpsmith::train {
namespace {

std::string error_of(const std::string& text) {
  const auto config = parse_config(nlohmann::json::parse(text));
  if (config) return "accepted";
  EXPECT_EQ(config.error().kind, ErrorKind::bad_input);
  EXPECT_EQ(config.error().message.find('\n'), std::string::npos);
  return config.error().message;
}

TEST(TrainConfig, SurvivesTheRoundTrip) {
  TrainConfig config;
  config.seed = 7;
  config.exemplars.choice = "random";
  config.contrastive.kl = 0.125;
  config.reward.alpha = 0.5;
  const auto back = parse_config(to_json(config));
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_EQ(to_json(*back), to_json(config));
  EXPECT_EQ(back->exemplar_choice(), embedded::ExemplarChoice::random);
  EXPECT_EQ(to_json(parse_config(nlohmann::json::object()).value()), to_json(TrainConfig()));
}

TEST(TrainConfig, NamesWhatIsWrong) {
  EXPECT_NE(error_of(R"({"contrastive":{"klp":1}})").find("contrastive.klp"), std::string::npos);
  EXPECT_NE(error_of(R"({"contrastive":{"kl":-1}})").find("contrastive.kl"), std::string::npos);
  EXPECT_NE(error_of(R"({"contrastive":{"kl":"much"}})").find("contrastive.kl"), std::string::npos);
  EXPECT_NE(error_of(R"({"supervised":{"steps":1.5}})").find("whole number"), std::string::npos);
  EXPECT_NE(error_of(R"({"supervised":3})").find("wrong type"), std::string::npos);
  EXPECT_NE(error_of(R"({"exemplars":{"choice":"best"}})").find("none, random, buckets"), std::string::npos);
  EXPECT_NE(error_of(R"({"device":"tpu"})").find("cpu, cuda"), std::string::npos);
  EXPECT_NE(error_of(R"({"model":{"width":10,"heads":3}})").find("heads"), std::string::npos);
  EXPECT_NE(error_of(R"([1])").find("object"), std::string::npos);
}

}  // namespace
}  // namespace warpsmith::train
