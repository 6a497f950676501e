// Nsight Compute's output as the words of a prompt.
#include "llm/profile.h"

#include <gtest/gtest.h>

namespace warpsmith::llm {
namespace {

constexpr const char* kOutput =
    "==PROF== Connected to process 77\n"
    "==PROF== Profiling \"gemm\" - 0: 0%....50%....100% - 3 passes\n"
    "\"ID\",\"Process ID\",\"Kernel Name\",\"Metric Name\",\"Metric Unit\",\"Metric Value\"\n"
    "\"0\",\"77\",\"gemm(const unsigned short *, "
    "int)\",\"dram__throughput.avg.pct_of_peak_sustained_elapsed\",\"%\",\"4.12\"\n"
    "\"0\",\"77\",\"gemm(const unsigned short *, int)\",\"gpu__time_duration.sum\",\"nsecond\",\"1,920\"\n"
    "\"0\",\"77\",\"gemm(const unsigned short *, int)\",\"launch__registers_per_thread\",\"register/thread\",\"40\"\n"
    "\"1\",\"77\",\"other\",\"lts__t_sector_hit_rate.pct\",\"%\",\"99\"\n";

TEST(Profile, NamesItsMetrics) {
  const auto text = describe_profile(kOutput);
  ASSERT_TRUE(text) << text.error().message;
  EXPECT_EQ(*text, "duration, warm 1,920 nsecond, DRAM throughput 4.12 %, registers a thread 40");
}

TEST(Profile, SaysWhyThereIsNone) {
  EXPECT_EQ(describe_profile("").error().message, "ncu printed no table");
  EXPECT_EQ(describe_profile("==ERROR== ERR_NVGPUCTRPERM - no permission\nmore\n").error().message,
            "ncu: ==ERROR== ERR_NVGPUCTRPERM - no permission");
  EXPECT_FALSE(describe_profile("\"ID\",\"x\"\n\"0\",\"1\"\n"));
  EXPECT_FALSE(
      describe_profile("\"ID\",\"Metric Name\",\"Metric Unit\",\"Metric Value\"\n\"0\",\"other\",\"%\",\"1\"\n"));
}

TEST(Profile, AsksForOneLaunch) {
  const auto command = profile_command("ncu", {"f", "g"}, 20, {"warpsmith", "bench"});
  EXPECT_EQ(command.front(), "ncu");
  EXPECT_EQ(command.back(), "bench");
  EXPECT_NE(std::find(command.begin(), command.end(), "regex:^(f|g)$"), command.end());
  EXPECT_NE(std::find(command.begin(), command.end(), "20"), command.end());
}

}  // namespace
}  // namespace warpsmith::llm
