// Handles of several devices in one process; needs two GPUs.
#include <gtest/gtest.h>

#include "gpu_support.h"

namespace warpsmith::library::testing {
namespace {

TEST(LibraryDevices, HandlesOfSeveralDevicesWorkSideBySide) {
  if (device_count() < 2) GTEST_SKIP() << "fewer than two CUDA devices";
  TestCall::Shape shape;
  shape.product = packed(256, 512, 128, false, true);
  const auto run_and_judge = [&](const Handle& handle) {
    const TestStream stream;
    const TestCall call(shape);
    call.fill(stream.get());
    ASSERT_EQ(call.run(handle.get(), stream.get()), WARPSMITH_STATUS_SUCCESS) << warpsmith_last_error();
    const Judged judged = call.judged(stream.get());
    EXPECT_GT(judged.elements, 0U);
    EXPECT_EQ(judged.wrong + judged.touched, 0U);
  };
  std::vector<std::unique_ptr<Handle>> handles;
  for (int device = 0; device < device_count(); ++device) {
    cuda(cudaSetDevice(device));
    handles.push_back(std::make_unique<Handle>());
    run_and_judge(*handles.back());
  }
  for (int device = 0; device < device_count(); ++device) {
    cuda(cudaSetDevice(device));
    run_and_judge(*handles[static_cast<std::size_t>(device)]);
  }
  // A handle in a thread whose device is another one.
  const TestCall call(shape);
  EXPECT_EQ(call.run(handles.front()->get(), nullptr), WARPSMITH_STATUS_WRONG_DEVICE);
  handles.clear();
  cuda(cudaSetDevice(0));
}

}  // namespace
}  // namespace warpsmith::library::testing
