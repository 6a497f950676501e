// A worker without a device, for tests of the parent. It knows of the peers 1 and 2. The file that
// WARPSMITH_FAKE_SCRIPT names says, a process a line, what a candidate's time is in it; every process takes the first
// line off. The last line serves all that follow. After the time may stand what goes wrong: "no-memory-to-load",
// "no-memory-to-time", "fault-after-timing".
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "fake_backend.h"

namespace {

std::string next_line(const char* path) {
  std::vector<std::string> lines;
  {
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) lines.push_back(line);
  }
  if (lines.empty()) return {};
  if (lines.size() > 1) {
    std::ofstream file(path);
    for (std::size_t i = 1; i < lines.size(); ++i) file << lines[i] << "\n";
  }
  return lines.front();
}

}  // namespace

int main() {
  class : public warpsmith::FakeBackend {
    std::vector<int> peers() const override { return {1, 2}; }
  } backend;
  backend.facts.launch_floor_us = 0.3;
  backend.failing_subject = 1000;
  const char* script = std::getenv("WARPSMITH_FAKE_SCRIPT");
  if (script == nullptr) return 3;
  const std::string line = next_line(script);
  backend.candidate_us = std::atof(line.c_str());
  const auto says = [&](const char* words) { return line.find(words) != std::string::npos; };
  if (says("no-memory-to-load")) backend.load_error = warpsmith::environment_error("no memory left");
  if (says("no-memory-to-time")) backend.arm_error = warpsmith::environment_error("no memory left");
  if (says("fault-after-timing")) backend.outputs_error = warpsmith::failure("an illegal address");
  return warpsmith::serve_worker(backend);
}
