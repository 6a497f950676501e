// A worker without a device, for tests of the parent. The file that WARPSMITH_FAKE_SCRIPT names says, a process a line,
// what a candidate's time is in it; every process takes the first line off. The last line serves all that follow.
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "fake_backend.h"

namespace {

double next_time_us(const char* path) {
  std::vector<std::string> lines;
  {
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) lines.push_back(line);
  }
  if (lines.empty()) return 0;
  if (lines.size() > 1) {
    std::ofstream file(path);
    for (std::size_t i = 1; i < lines.size(); ++i) file << lines[i] << "\n";
  }
  return std::atof(lines.front().c_str());
}

}  // namespace

int main() {
  warpsmith::FakeBackend backend;
  backend.facts.launch_floor_us = 0.3;
  backend.failing_subject = 1000;
  const char* script = std::getenv("WARPSMITH_FAKE_SCRIPT");
  if (script == nullptr) return 3;
  backend.candidate_us = next_time_us(script);
  return warpsmith::serve_worker(backend);
}
