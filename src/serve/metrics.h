// Counters of the server in Prometheus's text format.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>

namespace warpsmith::serve {

class Metrics {
 public:
  void request(const std::string& path, int status);  // path: one of the API's, or "other"
  // result: "queued", "duplicate", "malformed" (no candidate in it), "refused" (the queue is full)
  void submitted(const std::string& result, std::int64_t count = 1);
  void measured(const std::string& device, double seconds);  // one judgement
  // Of a job: kind of verdict, "expired" or "failed"; since its acceptance.
  void ended(const std::string& kind, double seconds);

  struct Gauges {
    std::map<std::string, std::pair<std::int64_t, std::int64_t>> queues;  // by device: waiting, running
    std::int64_t elsewhere = 0;                                           // jobs that wait for servers of other sites
    std::int64_t connections = 0;
    bool draining = false;
  };
  std::string text(const Gauges& gauges) const;

 private:
  static constexpr std::array<double, 10> kBounds = {0.1, 0.3, 1, 3, 10, 30, 60, 180, 600, 3600};  // seconds

  mutable std::mutex mutex_;
  std::map<std::pair<std::string, int>, std::int64_t> requests_;
  std::map<std::string, std::int64_t> submitted_, ended_;
  std::map<std::string, std::pair<std::int64_t, double>> measured_;  // count, seconds
  std::array<std::int64_t, kBounds.size() + 1> waits_{};             // the last: longer than all bounds
  double wait_seconds_ = 0;
};

// Resident memory of this process; 0: unknown.
std::int64_t resident_bytes();

}  // namespace warpsmith::serve
