// What a call of the library costs the host: time over a bare launch, warm and after idling; allocations; the first
// call of a process that has a kernel pack. Alone on the machine, please.
//   WARPSMITH_LIBRARY_EVIDENCE=FILE  figures as JSON
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "base/subprocess.h"
#include "gpu_support.h"
#include "library/locations.h"
#include "library/pack_builder.h"
#include "problem/grids.h"

// Counts what the calling thread takes from the heap, of this program and of every library in it.
extern "C" {
void* __libc_malloc(std::size_t bytes);
void* __libc_calloc(std::size_t count, std::size_t bytes);
void* __libc_realloc(void* memory, std::size_t bytes);
}
namespace {
thread_local std::int64_t allocations = 0;
}
extern "C" {
void* malloc(std::size_t bytes) noexcept {
  ++allocations;
  return __libc_malloc(bytes);
}
void* calloc(std::size_t count, std::size_t bytes) noexcept {
  ++allocations;
  return __libc_calloc(count, bytes);
}
void* realloc(void* memory, std::size_t bytes) noexcept {
  ++allocations;
  return __libc_realloc(memory, bytes);
}
}

namespace warpsmith::library::testing {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kWarmLimitUs = 1.5, kIdleLimitUs = 5, kColdStartLimitMs = 50;  // the design's

double us_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

// A problem that a kernel of ours runs, with its call.
struct Subject {
  std::string name;
  std::unique_ptr<TestCall> call;
  std::function<void()> launch;
};

class CostTest : public ::testing::Test {
 protected:
  void SetUp() override {
    WARPSMITH_NEEDS_GPU();
    warpsmith_options_t options{};
    options.fallback = WARPSMITH_FALLBACK_NONE;  // cuBLASLt's host time is not what is measured here
    handle_ = std::make_unique<Handle>(options);
    stream_ = std::make_unique<TestStream>();
    for (const std::int64_t size : {64, 1024}) {
      TestCall::Shape shape;
      shape.product = packed(size, size, 64, false, true);
      auto call = std::make_unique<TestCall>(shape);
      call->fill(stream_->get());
      const warpsmith_status_t status = call->run(handle_->get(), stream_->get());
      if (status == WARPSMITH_STATUS_NOT_COVERED) continue;  // cuBLASLt is faster there
      ASSERT_EQ(status, WARPSMITH_STATUS_SUCCESS) << warpsmith_last_error();
      const TestCall* made = call.get();
      subjects_.push_back({std::to_string(size) + "x" + std::to_string(size) + "x64", std::move(call), [this, made] {
                             ASSERT_EQ(made->run(handle_->get(), stream_->get()), WARPSMITH_STATUS_SUCCESS);
                           }});
    }
    ASSERT_FALSE(subjects_.empty()) << "no kernel of ours runs any of the problems";
    stream_->wait();
  }

  // Host microseconds of one call, the stream idle before.
  double timed(const std::function<void()>& launch) const {
    stream_->wait();
    const auto start = Clock::now();
    launch();
    return us_since(start);
  }
  std::function<void()> bare() const {
    return [this] { cuda(bare_launch(stream_->get())); };
  }

  // Medians of turns: the library, a bare launch; `pause` before each.
  std::pair<double, double> medians(const std::function<void()>& launch, int rounds,
                                    std::chrono::milliseconds pause) const {
    std::vector<double> ours, theirs;
    const auto empty = bare();
    for (int i = 0; i < rounds; ++i) {
      const auto one = [&](const std::function<void()>& work, std::vector<double>& into) {
        stream_->wait();
        if (pause.count() > 0) std::this_thread::sleep_for(pause);
        const auto start = Clock::now();
        work();
        into.push_back(us_since(start));
      };
      one(launch, ours);
      one(empty, theirs);
    }
    return {median(ours), median(theirs)};
  }

  std::unique_ptr<Handle> handle_;
  std::unique_ptr<TestStream> stream_;
  std::vector<Subject> subjects_;
};

TEST_F(CostTest, WarmCallsCostLittleMoreThanALaunch) {
  nlohmann::json detail = nlohmann::json::array();
  double worst = 0;
  for (const Subject& subject : subjects_) {
    medians(subject.launch, 200, {});
    const auto [ours, bare] = medians(subject.launch, 4000, {});
    detail.push_back(
        {{"problem", subject.name}, {"call_us", ours}, {"bare_launch_us", bare}, {"over_us", ours - bare}});
    worst = std::max(worst, ours - bare);
  }
  record("host_cost", detail);
  record("host_cost_us", worst);
  EXPECT_LE(worst, kWarmLimitUs);
}

TEST_F(CostTest, CallsAfterIdlingCostLittleMoreThanALaunch) {
  nlohmann::json detail = nlohmann::json::array();
  double worst = 0;
  for (const Subject& subject : subjects_) {
    const auto [ours, bare] = medians(subject.launch, 300, std::chrono::milliseconds(10));
    detail.push_back(
        {{"problem", subject.name}, {"call_us", ours}, {"bare_launch_us", bare}, {"over_us", ours - bare}});
    worst = std::max(worst, ours - bare);
  }
  record("host_cost_idle", detail);
  record("host_cost_idle_us", worst);
  EXPECT_LE(worst, kIdleLimitUs);
}

TEST_F(CostTest, CallsAllocateNothing) {
  constexpr int kCalls = 1000;
  std::int64_t most = 0;
  const auto count = [&](const std::function<void()>& work) {
    for (int i = 0; i < 16; ++i) work();
    stream_->wait();
    const std::int64_t before = allocations;
    for (int i = 0; i < kCalls; ++i) work();
    return allocations - before;
  };
  const std::int64_t bare_count = count(bare());
  for (const Subject& subject : subjects_) {
    const std::int64_t ours = count([&] { subject.call->run(handle_->get(), stream_->get()); });
    most = std::max(most, ours);
    EXPECT_LE(ours, bare_count) << subject.name;
  }
  // The counter counts.
  const std::int64_t before = allocations;
  const std::unique_ptr<std::string> something = std::make_unique<std::string>(100, 'x');
  EXPECT_GT(allocations, before) << something->size();
  record("allocations_per_call", static_cast<double>(most - bare_count) / kCalls);
}

// Run by the test below in a process of its own: prints the milliseconds from "CUDA has started" to the first result.
TEST(ColdStart, DISABLED_Child) {
  cuda(cudaFree(nullptr));
  TestCall::Shape shape;
  shape.product = packed(64, 64, 64, false, true);
  const TestCall call(shape);
  const TestStream stream;
  call.fill(stream.get());
  stream.wait();
  const auto start = Clock::now();
  warpsmith_options_t options{};
  options.compile = WARPSMITH_COMPILE_NEVER;
  options.fallback = WARPSMITH_FALLBACK_NONE;
  const Handle handle(options);
  ASSERT_EQ(call.run(handle.get(), stream.get()), WARPSMITH_STATUS_SUCCESS) << warpsmith_last_error();
  stream.wait();
  std::printf("\ncold start: %.3f ms\n", us_since(start) / 1000);
  EXPECT_EQ(call.judged(stream.get()).wrong, 0U);
}

// A wisdom file as large as that of the whole grid, and a pack with its kernels' variants of one problem.
TEST(ColdStart, TheFirstCallWithAPackIsQuick) {
  WARPSMITH_NEEDS_GPU();
  const ScratchFolder folder;
  cudaDeviceProp properties{};
  cuda(cudaGetDeviceProperties(&properties, 0));
  WisdomHeader header;
  header.machine = properties.name;
  header.compute_capability = 10 * properties.major + properties.minor;
  header.units = properties.multiProcessorCount;
  header.target = properties.major >= 9 ? Target::sm90 : Target::sm80;
  Wisdom wisdom(header);
  const Machine machine = machine_of(header);
  std::optional<Wisdom> one;
  const std::vector<Shape> shapes = named_grid("cuda-l2").value();
  for (const Shape& shape : shapes) {
    WisdomEntry entry;
    entry.problem.m = shape.m;
    entry.problem.n = shape.n;
    entry.problem.k = shape.k;
    entry.problem.layout = Layout::tn;
    entry.cold_us = 1;
    entry.date = "2025-01-01T00:00:00Z";
    Problem smallest = entry.problem;
    smallest.m = smallest.n = smallest.k = 64;
    for (const Recipe& recipe : tiny_family().starting_points(smallest, machine)) {
      if (entry.recipe.empty() && is_legal(recipe, smallest, machine)) entry.recipe = to_string(recipe);
    }
    ASSERT_FALSE(entry.recipe.empty());
    wisdom.merge(entry);
    if (entry.problem == smallest) {
      one.emplace(header);
      one->merge(entry);
    }
  }
  ASSERT_TRUE(wisdom.save(folder.path() / "wisdom.jsonl").ok());
  const PackPlan plan = plan_pack(*one, machine, {}, {});
  CompilerOptions options{.cache = folder.path() / "cache"};
  options.nvrtc_helper = find_nvrtc_helper();
  const std::atomic<bool> stop{false};
  const auto report = build_pack(plan, Compiler(options), 4, nlohmann::json::object(), folder.path() / "x.wspack", stop,
                                 [](const PackProgress&) {});
  ASSERT_TRUE(report) << report.error().message;
  std::vector<double> times;
  for (int i = 0; i < 5; ++i) {
    ProcessRequest request;
    request.argv = {std::filesystem::read_symlink("/proc/self/exe").string(), "--gtest_filter=ColdStart.DISABLED_Child",
                    "--gtest_also_run_disabled_tests"};
    request.environment = {{"WARPSMITH_WISDOM", (folder.path() / "wisdom.jsonl").string()},
                           {"WARPSMITH_PACK", (folder.path() / "x.wspack").string()},
                           {"WARPSMITH_CACHE", (folder.path() / "empty").string()},
                           {"WARPSMITH_LIBRARY_EVIDENCE", std::nullopt}};
    request.limits.wall_seconds = 120;
    const auto output = run_process(request);
    ASSERT_TRUE(output) << output.error().message;
    const std::size_t at = output->out.find("cold start: ");
    ASSERT_TRUE(output->status.success() && at != std::string::npos) << output->out << output->err;
    times.push_back(std::strtod(output->out.c_str() + at + 12, nullptr));
  }
  record("cold_start_ms", median(times));
  EXPECT_LE(median(times), kColdStartLimitMs);
}

}  // namespace
}  // namespace warpsmith::library::testing
