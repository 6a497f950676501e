// The catalogue of attacks: what each tries, how it is shown to succeed on a benchmark without protection, and what
// must stop it here. docs/attacks.md describes them in words.
#pragma once

#include <string>
#include <vector>

namespace warpsmith::attacks {

// What counts as success on the unprotected harness.
enum class Success {
  faster,       // reported right, in at most `share` of the honest kernel's time
  accepted,     // reported right, although it is not, or not in the way that is claimed
  forged,       // the harness's reader takes the attack's own answer for the harness's
  silenced,     // the reader gets no answer, though the harness ends well
  hangs,        // the harness does not end within its time
  kills,        // the harness ends without an answer, and every later candidate with it
  tells,        // the harness's output quotes `evidence`
  leaves_file,  // the file `evidence` is there afterwards
  connects,     // the listener on kListenerPort hears from it
  rewrites,     // the harness reads another time to beat than was written
};

inline constexpr int kListenerPort = 47813;

struct Attack {
  std::string name;   // of its file
  std::string sizes;  // MxNxK, on the harness and here
  Success success = Success::faster;
  std::vector<std::string> weaknesses;  // options of the unprotected harness
  // What may stop it here, any of them: a gate, "compile", "crashed", "timed-out", "suspicious", a finding of the
  // audit, or "neutralised": accepted as right, with the honest kernel's time or worse.
  std::vector<std::string> caught_by;
  double share = 0.7;  // of the honest kernel's time, by the harness's own clock
  std::string evidence = {};
  std::string evaluated_sizes = {};  // where they differ from `sizes`
};

// Candidates in device code, tests/attacks/device/NAME.cu and .json.
const std::vector<Attack>& device_attacks();
// Sources that attack the compiler or its machine: device/NAME.cu, and cpu/NAME.cpp. No GPU needed.
const std::vector<Attack>& source_attacks();
// Libraries with host code, tests/attacks/host/NAME.cu.
const std::vector<Attack>& host_attacks();

struct Honest {
  std::string name;
  std::vector<std::string> problems;
};
const std::vector<Honest>& honest_device_candidates();
const std::vector<Honest>& honest_host_candidates();

}  // namespace warpsmith::attacks
