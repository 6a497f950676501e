// ptxas logs as they are printed.
#include "compile/resource_report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace warpsmith {
namespace {

constexpr const char* kLog =
    "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized due to "
    "insufficient "
    "register resources for the wgmma pipeline in the function 'gemm'\n"
    "ptxas warning : Registers are spilled to local memory in function 'gemm', 8 bytes spill stores, 12 bytes spill "
    "loads\n"
    "ptxas info    : 0 bytes gmem\n"
    "ptxas info    : Compiling entry function 'gemm' for 'sm_90a'\n"
    "ptxas info    : Function properties for gemm\n"
    "ptxas         .     16 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads\n"
    "ptxas info    : Used 168 registers, used 1 barriers, 16 bytes cumulative stack size, 1024 bytes smem\n"
    "ptxas info    : Function properties for helper\n"
    "ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
    "ptxas info    : Used 12 registers, used 1 barriers\n";

TEST(ResourceReport, KeepsTheWorstOfAllFunctions) {
  const ResourceReport report = parse_ptxas_log(kLog);
  EXPECT_EQ(report.registers, 168);
  EXPECT_EQ(report.stack_bytes, 16);
  EXPECT_EQ(report.spill_store_bytes, 8);
  EXPECT_EQ(report.spill_load_bytes, 12);
  EXPECT_EQ(report.static_smem_bytes, 1024);
  EXPECT_TRUE(report.wgmma_serialized);
  EXPECT_FALSE(report.clean());
  ASSERT_EQ(report.warnings.size(), 1u);
}

TEST(ResourceReport, NothingReportedIsMinusOne) {
  const ResourceReport report = parse_ptxas_log("");
  EXPECT_EQ(report.registers, -1);
  EXPECT_EQ(report.spill_store_bytes, -1);
  EXPECT_FALSE(report.wgmma_serialized);
}

// A candidate's own words get into the log, quoted by a message.
TEST(ResourceReport, SurvivesHostileLogs) {
  const std::string digits(1 << 20, '9');
  EXPECT_EQ(parse_ptxas_log("ptxas info : Used 99999999999999999999 registers\n").registers, -1);
  EXPECT_EQ(
      parse_ptxas_log("ptxas info : Used " + digits + " registers\n" + digits + " bytes spill stores\n").registers, -1);
  std::string flood;
  for (int i = 0; i < 10000; ++i) flood += "warning: noise\n";
  EXPECT_LE(parse_ptxas_log(flood).warnings.size(), 100u);
}

TEST(ResourceReport, RoundTripsThroughJson) {
  const ResourceReport report = parse_ptxas_log(kLog);
  const ResourceReport again = nlohmann::json(report).get<ResourceReport>();
  EXPECT_EQ(nlohmann::json(again), nlohmann::json(report));
}

}  // namespace
}  // namespace warpsmith
