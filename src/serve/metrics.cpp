// Prometheus's text exposition format 0.0.4.
#include "serve/metrics.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

namespace warpsmith::serve {

namespace {

std::string header(const char* name, const char* type, const char* help) {
  return fmt::format("# HELP warpsmith_{0} {2}\n# TYPE warpsmith_{0} {1}\n", name, type, help);
}

}  // namespace

void Metrics::request(const std::string& path, int status) {
  const std::lock_guard lock(mutex_);
  ++requests_[{path, status}];
}

void Metrics::submitted(const std::string& result, std::int64_t count) {
  const std::lock_guard lock(mutex_);
  submitted_[result] += count;
}

void Metrics::measured(const std::string& device, double seconds) {
  const std::lock_guard lock(mutex_);
  auto& [count, sum] = measured_[device];
  ++count;
  sum += seconds;
}

void Metrics::ended(const std::string& kind, double seconds) {
  const std::lock_guard lock(mutex_);
  ++ended_[kind];
  wait_seconds_ += seconds;
  std::size_t bucket = 0;
  while (bucket < kBounds.size() && seconds > kBounds[bucket]) ++bucket;
  ++waits_[bucket];
}

std::string Metrics::text(const Gauges& gauges) const {
  const std::lock_guard lock(mutex_);
  std::string text = header("requests_total", "counter", "HTTP requests answered, by path and status.");
  for (const auto& [key, count] : requests_) {
    text += fmt::format("warpsmith_requests_total{{path=\"{}\",status=\"{}\"}} {}\n", key.first, key.second, count);
  }
  text += header("submissions_total", "counter", "Candidates submitted, by what became of the submission.");
  for (const auto& [result, count] : submitted_) {
    text += fmt::format("warpsmith_submissions_total{{result=\"{}\"}} {}\n", result, count);
  }
  text += header("verdicts_total", "counter", "Candidates that ended, by verdict.");
  for (const auto& [kind, count] : ended_)
    text += fmt::format("warpsmith_verdicts_total{{kind=\"{}\"}} {}\n", kind, count);
  text += header("judging_seconds", "summary", "Time that devices spent on candidates.");
  for (const auto& [device, spent] : measured_) {
    text += fmt::format("warpsmith_judging_seconds_sum{{device=\"{}\"}} {}\n", device, spent.second);
    text += fmt::format("warpsmith_judging_seconds_count{{device=\"{}\"}} {}\n", device, spent.first);
  }
  text += header("wait_seconds", "histogram", "From the acceptance of a candidate to its end.");
  std::int64_t below = 0;
  for (std::size_t i = 0; i < waits_.size(); ++i) {
    below += waits_[i];
    const std::string bound = i < kBounds.size() ? fmt::format("{}", kBounds[i]) : "+Inf";
    text += fmt::format("warpsmith_wait_seconds_bucket{{le=\"{}\"}} {}\n", bound, below);
  }
  text += fmt::format("warpsmith_wait_seconds_sum {}\nwarpsmith_wait_seconds_count {}\n", wait_seconds_, below);
  text += header("queue", "gauge", "Candidates that wait and run, by device.");
  for (const auto& [device, counts] : gauges.queues) {
    text += fmt::format("warpsmith_queue{{device=\"{}\",state=\"queued\"}} {}\n", device, counts.first);
    text += fmt::format("warpsmith_queue{{device=\"{}\",state=\"running\"}} {}\n", device, counts.second);
  }
  text += header("queue_elsewhere", "gauge", "Candidates that wait for other machines, targets or numbers of threads.");
  text += fmt::format("warpsmith_queue_elsewhere {}\n", gauges.elsewhere);
  text += header("connections", "gauge", "Open connections.");
  text += fmt::format("warpsmith_connections {}\n", gauges.connections);
  text += header("draining", "gauge", "1 from the signal to end until the end.");
  text += fmt::format("warpsmith_draining {}\n", gauges.draining ? 1 : 0);
  text += header("resident_bytes", "gauge", "Resident memory of the server's process.");
  text += fmt::format("warpsmith_resident_bytes {}\n", resident_bytes());
  return text;
}

std::int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::int64_t total = 0, resident = 0;
  if (!(file >> total >> resident)) return 0;
  return resident * sysconf(_SC_PAGESIZE);
}

}  // namespace warpsmith::serve
