// Three clocks on the same work: device events and the host's clock, both read inside the foreign process and therefore
// only claims, and the judge's own from the command until it has seen the results. Batches of N and 2 N calls are
// timed; the difference is N calls without what starting and ending a batch costs, whichever clock it is.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace warpsmith::audit {

// One batch, microseconds in all.
struct BatchTimes {
  int calls = 0;
  double device_us = 0;  // claimed: between two events on the stream
  double host_us = 0;    // claimed: from the first call until the stream was idle
  double settle_us = 0;  // claimed: from then until the whole device was idle
  double judge_us = 0;   // from the command until the judge had read the outputs
};

// A batch of N calls and one of 2 N, taken one after the other.
struct BatchPair {
  BatchTimes single, twice;
};

struct ClockReport {
  int samples = 0;
  double device_us = 0;        // per call, median: of the longer batch, as claimed
  double device_slope_us = 0;  // per call, median of (2N) - (N), as are the next two
  double host_us = 0;
  double judge_us = 0;
  double noise_us = 0;  // what the judge's figure may be off by
  double spread = 0;    // (95th - 5th percentile) / median of device_us
  bool consistent = false;
  std::string disagreement;  // with the numbers; empty where consistent
  double quoted_us = 0;      // the slowest of consistent clocks; the judge's, where they disagree
};

// Precondition: pairs is not empty.
ClockReport compare_clocks(const std::vector<BatchPair>& pairs);

void to_json(nlohmann::json& json, const ClockReport& report);
void from_json(const nlohmann::json& json, ClockReport& report);

}  // namespace warpsmith::audit
