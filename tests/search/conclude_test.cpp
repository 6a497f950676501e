// Choosing the baseline that counts.
#include "search/conclude.h"

#include <gtest/gtest.h>

#include "search/trials.h"

namespace warpsmith {
namespace {

Measurement measurement(const char* subject, double cold_us) {
  Measurement one;
  one.subject = subject;
  one.cold.median_us = cold_us;
  return one;
}

TEST(FastestOf, TakesTheFastestOfTheLayoutAndNeverTheCandidate) {
  const std::vector<Measurement> subjects = {measurement("candidate", 1.0), measurement("openblas-sgemm-nn-1t", 4.0),
                                             measurement("openblas-sgemm-tn-1t", 2.0),
                                             measurement("onednn-sgemm-nn-2t", 3.0)};
  EXPECT_EQ(fastest_of(subjects, "nn")->subject, "onednn-sgemm-nn-2t");
  EXPECT_EQ(fastest_of(subjects, "tn")->subject, "openblas-sgemm-tn-1t");
  EXPECT_EQ(fastest_of(subjects)->subject, "openblas-sgemm-tn-1t");
  EXPECT_EQ(fastest_of(subjects, "tt"), nullptr);
  EXPECT_EQ(fastest_of({subjects[0]}), nullptr);
}

TEST(ResourceGate, FailsSpillsAndSerialisedWgmma) {
  EXPECT_TRUE(resource_gate({}).passed);  // nothing reported
  ResourceReport spills;
  spills.spill_store_bytes = 16;
  EXPECT_FALSE(resource_gate(spills).passed);
  EXPECT_NE(resource_gate(spills).detail.find("16 bytes stored"), std::string::npos);
  ResourceReport serialised;
  serialised.wgmma_serialized = true;
  EXPECT_FALSE(resource_gate(serialised).passed);
}

}  // namespace
}  // namespace warpsmith
