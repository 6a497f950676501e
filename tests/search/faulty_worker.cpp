// A worker without a device whose driver fails now and then, for tests of the search under faults. What a candidate is
// stands in its artifact's key.
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <random>
#include <thread>

#include "../evaluate/fake_backend.h"

namespace warpsmith {
namespace {

constexpr double kDriverErrors = 0.003;  // of all device calls

class FaultyBackend final : public FakeBackend {
 public:
  Status load(const Artifact& artifact, const nlohmann::json&) override {
    kernel = [](FakeBackend& self) { self.multiply(); };
    if (artifact.key == "zeros") {
      kernel = [](FakeBackend& self) { std::fill(self.c.begin(), self.c.end(), std::uint16_t{0}); };
    } else if (artifact.key == "crashing") {
      kernel = [](FakeBackend&) { raise(SIGSEGV); };
    } else if (artifact.key == "straying") {
      kernel = [](FakeBackend& self) {
        self.multiply();
        self.red_zone_hit = true;
      };
    }
    return ok_status();
  }
  Status fill(InputKind kind, std::uint64_t seed) override {
    if (driver_fails()) return injected();
    return FakeBackend::fill(kind, seed);
  }
  Status run_once(std::uint16_t poison) override {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // a window for those who kill
    if (driver_fails()) return injected();
    return FakeBackend::run_once(poison);
  }

 private:
  static Error injected() { return environment_error("injected driver error"); }
  bool driver_fails() { return std::uniform_real_distribution<double>()(random_) < kDriverErrors; }

  std::mt19937_64 random_{std::random_device{}()};
};

}  // namespace
}  // namespace warpsmith

int main() {
  warpsmith::FaultyBackend backend;
  return warpsmith::serve_worker(backend);
}
