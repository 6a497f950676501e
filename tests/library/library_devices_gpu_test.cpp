// Handles of several devices in one process: side by side, from many threads, and where the thread's device is another
// one. Needs two GPUs; says so where there are fewer.
//   WARPSMITH_LIBRARY_EVIDENCE=FILE figures as JSON
#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <thread>

#include "gpu_support.h"

namespace warpsmith::library::testing {
namespace {

constexpr int kRounds = 20;

// What differs in how it runs: pointers alone, tensor maps, a workspace, unaligned operands and small batches
// (cuBLASLt), a batch that is a loop, scaling.
std::vector<TestCall::Shape> shapes() {
  std::vector<TestCall::Shape> made(6);
  made[0].product = packed(64, 64, 64, false, true);
  made[1].product = packed(1024, 512, 256, false, true);
  made[2].product = packed(128, 256, 8192, false, true);
  made[3].product = packed(100, 60, 72, true, false);
  made[3].offset_a = 1;
  made[4].product = packed(1280, 1024, 1024, false, false);
  made[4].batch = 2;
  made[5].product = packed(256, 384, 512, false, true);
  made[5].product.alpha = 0.5F;
  made[5].product.beta = -1;
  return made;
}

class LibraryDevices : public ::testing::Test {
 protected:
  // Before device 0's thread makes its handles, the others are set up: nothing may depend on who came first.
  void SetUp() override {
    if (device_count() < 2) GTEST_SKIP() << "fewer than two CUDA devices";
    for (int device = device_count() - 1; device >= 0; --device) {
      cuda(cudaSetDevice(device));
      handles_.emplace(handles_.begin());
    }
  }
  void TearDown() override {
    handles_.clear();
    if (device_count() > 0) cuda(cudaSetDevice(0));
  }
  const Handle& handle(int device) const { return handles_[static_cast<std::size_t>(device)]; }
  int devices() const { return static_cast<int>(handles_.size()); }

  // On the current device; whether the result is right.
  static bool right(const TestCall::Shape& shape, const Handle& handle, const TestStream& stream) {
    const TestCall call(shape);
    call.fill(stream.get());
    if (call.run(handle.get(), stream.get()) != WARPSMITH_STATUS_SUCCESS) {
      ADD_FAILURE() << call.describe() << ": " << warpsmith_last_error();
      return false;
    }
    const Judged judged = call.judged(stream.get());
    return judged.elements > 0 && judged.wrong == 0 && judged.touched == 0;
  }

 private:
  std::vector<Handle> handles_;
};

// Call by call another device, the same problem on each: what a thread keeps of its last call is of one device.
TEST_F(LibraryDevices, AThreadMayChangeItsDeviceFromCallToCall) {
  std::vector<std::unique_ptr<TestStream>> streams;
  for (int device = 0; device < devices(); ++device) {
    cuda(cudaSetDevice(device));
    streams.push_back(std::make_unique<TestStream>());
  }
  for (const TestCall::Shape& shape : shapes()) {
    for (int round = 0; round < 3; ++round) {
      for (int device = 0; device < devices(); ++device) {
        cuda(cudaSetDevice(device));
        EXPECT_TRUE(right(shape, handle(device), *streams[static_cast<std::size_t>(device)])) << "device " << device;
      }
    }
  }
}

TEST_F(LibraryDevices, ThreadsOfAllDevicesAtOnce) {
  std::atomic<int> calls{0}, wrong{0};
  const auto work = [&](int device, std::uint64_t seed) {
    cuda(cudaSetDevice(device));
    const TestStream stream;
    for (int round = 0; round < kRounds; ++round) {
      for (TestCall::Shape shape : shapes()) {
        shape.seed = seed + static_cast<std::uint64_t>(round);
        ++calls;
        if (!right(shape, handle(device), stream)) ++wrong;
      }
    }
  };
  std::vector<std::thread> threads;
  for (int device = 0; device < devices(); ++device) {
    for (const std::uint64_t seed : {100, 200}) threads.emplace_back(work, device, seed);
  }
  for (std::thread& thread : threads) thread.join();
  record("devices", {{"devices", devices()}, {"calls", calls.load()}, {"wrong", wrong.load()}});
  EXPECT_EQ(wrong, 0);
}

TEST_F(LibraryDevices, AHandleOfAnotherDeviceIsRefusedAndNothingRuns) {
  cuda(cudaSetDevice(0));
  const TestStream stream;
  TestCall::Shape shape;
  shape.product = packed(256, 512, 128, false, true);
  const TestCall call(shape);
  call.fill(stream.get());
  const Plan plan(handle(0), call.problem());
  stream.wait();
  const warpsmith_problem_t problem = call.problem();
  warpsmith_plan_t other = nullptr;
  std::string text(8192, '\0');
  cuda(cudaSetDevice(1));
  const warpsmith_status_t refused = call.run(handle(0).get(), nullptr);
  EXPECT_EQ(refused, WARPSMITH_STATUS_WRONG_DEVICE);
  record("wrong_device", warpsmith_status_string(refused));
  EXPECT_EQ(warpsmith_plan_create(handle(0).get(), &problem, &other), WARPSMITH_STATUS_WRONG_DEVICE);
  EXPECT_THROW(plan.run(call.a(), call.b(), call.c()), StatusError);
  EXPECT_EQ(warpsmith_explain(handle(0).get(), &problem, text.data(), text.size()), WARPSMITH_STATUS_WRONG_DEVICE);
  warpsmith_status_t fresh = WARPSMITH_STATUS_SUCCESS;
  std::thread([&] { fresh = call.run(handle(1).get(), nullptr); }).join();  // such a thread has device 0
  EXPECT_EQ(fresh, WARPSMITH_STATUS_WRONG_DEVICE);
  cuda(cudaDeviceSynchronize());
  cuda(cudaSetDevice(0));
  // C holds what it held; then the plan still runs.
  const TestCall untouched(shape);
  untouched.fill(stream.get());
  const DeviceMemory differing(sizeof(unsigned long long));
  cuda(cudaMemsetAsync(differing.as<void>(), 0, sizeof(unsigned long long), stream.get()));
  count_differing(untouched.c_begin(), call.c_begin(), call.c_elements(), differing.as<unsigned long long>(),
                  stream.get());
  unsigned long long changed = 1;
  cuda(cudaMemcpyAsync(&changed, differing.as<void>(), sizeof changed, cudaMemcpyDeviceToHost, stream.get()));
  stream.wait();
  EXPECT_EQ(changed, 0U);
  plan.run(call.a(), call.b(), call.c(), stream.get());
  EXPECT_EQ(call.judged(stream.get()).wrong, 0U);
}

// The stream of another device is the caller's error, and leaves the handle and both devices as they were.
TEST_F(LibraryDevices, AStreamOfAnotherDeviceIsRefused) {
  cuda(cudaSetDevice(1));
  const TestStream foreign;
  cuda(cudaSetDevice(0));
  const TestStream stream;
  for (const TestCall::Shape& shape : shapes()) {
    const TestCall call(shape);
    call.fill(stream.get());
    ASSERT_EQ(call.run(handle(0).get(), stream.get()), WARPSMITH_STATUS_SUCCESS) << call.describe();
    stream.wait();
    const warpsmith_status_t status = call.run(handle(0).get(), foreign.get());
    if (call.takes_kernel(handle(0))) {
      EXPECT_EQ(status, WARPSMITH_STATUS_INVALID_VALUE) << warpsmith_last_error();
    }
    static_cast<void>(cudaGetLastError());  // cuBLASLt leaves one
    EXPECT_TRUE(right(shape, handle(0), stream));
  }
}

TEST_F(LibraryDevices, GraphsOfASecondDevice) {
  cuda(cudaSetDevice(1));
  const TestStream stream;
  TestCall::Shape shape;
  shape.product = packed(128, 256, 8192, false, true);
  const TestCall call(shape);
  call.fill(stream.get());
  stream.wait();
  cuda(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeGlobal));
  EXPECT_EQ(call.run(handle(1).get(), stream.get()), WARPSMITH_STATUS_SUCCESS) << warpsmith_last_error();
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  cuda(cudaStreamEndCapture(stream.get(), &graph));
  cuda(cudaGraphInstantiate(&executable, graph, 0));
  for (int i = 0; i < 3; ++i) {
    call.reset(stream.get());
    cuda(cudaGraphLaunch(executable, stream.get()));
    const Judged judged = call.judged(stream.get());
    EXPECT_GT(judged.elements, 0U);
    EXPECT_EQ(judged.wrong + judged.touched, 0U);
  }
  cuda(cudaGraphExecDestroy(executable));
  cuda(cudaGraphDestroy(graph));
}

// A handle goes while another device is current, or none; the others and the thread's device stay.
TEST_F(LibraryDevices, HandlesGoInAnyOrder) {
  const TestCall::Shape shape = shapes()[2];
  cuda(cudaSetDevice(1));
  std::optional<Handle> second(std::in_place), third(std::in_place);
  {
    const TestStream stream;
    EXPECT_TRUE(right(shape, *second, stream));
  }
  cuda(cudaSetDevice(0));
  second.reset();
  int current = -1;
  cuda(cudaGetDevice(&current));
  EXPECT_EQ(current, 0);
  current = -1;
  std::thread([&] {
    third.reset();
    cuda(cudaGetDevice(&current));
    const TestStream stream;
    EXPECT_TRUE(right(shape, handle(0), stream));
  }).join();
  EXPECT_EQ(current, 0);
  for (int device = 0; device < devices(); ++device) {
    cuda(cudaSetDevice(device));
    const TestStream stream;
    EXPECT_TRUE(right(shape, handle(device), stream)) << "device " << device;
  }
}

}  // namespace
}  // namespace warpsmith::library::testing
