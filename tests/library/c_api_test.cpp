// The C interface where no GPU is usable: every entry point answers with a status.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "warpsmith/hgemm.h"
#include "warpsmith/hgemm.hpp"

namespace {

// Hides the GPUs that there may be, before the driver is opened.
const int kHidden = setenv("CUDA_VISIBLE_DEVICES", "-1", 1);

TEST(CApi, CreateSaysThatThereIsNoDevice) {
  ASSERT_EQ(kHidden, 0);
  auto handle = reinterpret_cast<warpsmith_handle_t>(1);
  EXPECT_EQ(warpsmith_create(&handle), WARPSMITH_STATUS_NO_DEVICE);
  EXPECT_EQ(handle, nullptr);
  EXPECT_STRNE(warpsmith_last_error(), "");
  EXPECT_EQ(std::strchr(warpsmith_last_error(), '\n'), nullptr);
}

TEST(CApi, CreateChecksItsArgumentsFirst) {
  EXPECT_EQ(warpsmith_create(nullptr), WARPSMITH_STATUS_INVALID_VALUE);
  warpsmith_handle_t handle = nullptr;
  EXPECT_EQ(warpsmith_create_with_options(&handle, nullptr), WARPSMITH_STATUS_NO_DEVICE);
  const auto with = [&](auto change) {
    warpsmith_options_t options{};
    change(options);
    return warpsmith_create_with_options(&handle, &options);
  };
  EXPECT_EQ(with([](auto& o) { o.mode = static_cast<warpsmith_mode_t>(2); }), WARPSMITH_STATUS_INVALID_VALUE);
  EXPECT_EQ(with([](auto& o) { o.fallback = static_cast<warpsmith_fallback_t>(-1); }), WARPSMITH_STATUS_INVALID_VALUE);
  EXPECT_EQ(with([](auto& o) { o.compile = static_cast<warpsmith_compile_t>(9); }), WARPSMITH_STATUS_INVALID_VALUE);
  EXPECT_EQ(with([](auto& o) { o.streams = -1; }), WARPSMITH_STATUS_INVALID_VALUE);
  EXPECT_EQ(with([](auto& o) { o.streams = 1025; }), WARPSMITH_STATUS_INVALID_VALUE);
  EXPECT_EQ(with([](auto& o) { o.sharing = static_cast<warpsmith_sharing_t>(2); }), WARPSMITH_STATUS_INVALID_VALUE);
  EXPECT_EQ(with([](auto& o) { o.sharing = WARPSMITH_SHARING_ANY; }), WARPSMITH_STATUS_NO_DEVICE);
  EXPECT_EQ(with([](auto& o) { o.reserved_word = 1; }), WARPSMITH_STATUS_INVALID_VALUE);
  EXPECT_EQ(with([](auto& o) { o.reserved[6] = 1; }), WARPSMITH_STATUS_INVALID_VALUE);
  EXPECT_EQ(with([](auto&) {}), WARPSMITH_STATUS_NO_DEVICE);
}

// Programs that were built before a field came have zeros there, and the size stays.
static_assert(sizeof(warpsmith_options_t) == 5 * sizeof(int) + 4 + 3 * sizeof(char*) + 8 * sizeof(std::int64_t));
static_assert(offsetof(warpsmith_options_t, sharing) == 6 * sizeof(int) + 3 * sizeof(char*));

TEST(CApi, ANullHandleIsRefusedEverywhere) {
  char buffer[16];
  warpsmith_problem_t problem{};
  warpsmith_plan_t plan = nullptr;
  EXPECT_EQ(warpsmith_destroy(nullptr), WARPSMITH_STATUS_NOT_INITIALIZED);
  EXPECT_EQ(warpsmith_gemm(nullptr, WARPSMITH_OP_N, WARPSMITH_OP_N, 1, 1, 1, 1, nullptr, 1, nullptr, 1, 0, nullptr, 1,
                           WARPSMITH_F16, WARPSMITH_COMPUTE_32F, nullptr),
            WARPSMITH_STATUS_NOT_INITIALIZED);
  EXPECT_EQ(warpsmith_gemm_strided_batched(nullptr, WARPSMITH_OP_N, WARPSMITH_OP_N, 1, 1, 1, 1, nullptr, 1, 1, nullptr,
                                           1, 1, 0, nullptr, 1, 1, 1, WARPSMITH_F16, WARPSMITH_COMPUTE_32F, nullptr),
            WARPSMITH_STATUS_NOT_INITIALIZED);
  EXPECT_EQ(warpsmith_plan_create(nullptr, &problem, &plan), WARPSMITH_STATUS_NOT_INITIALIZED);
  EXPECT_EQ(warpsmith_plan_run(nullptr, 1, nullptr, nullptr, 0, nullptr, nullptr), WARPSMITH_STATUS_NOT_INITIALIZED);
  EXPECT_EQ(warpsmith_plan_destroy(nullptr), WARPSMITH_STATUS_NOT_INITIALIZED);
  EXPECT_EQ(warpsmith_explain(nullptr, &problem, buffer, sizeof buffer), WARPSMITH_STATUS_NOT_INITIALIZED);
}

TEST(CApi, TheLastErrorIsTheThreadsOwn) {
  EXPECT_EQ(warpsmith_create(nullptr), WARPSMITH_STATUS_INVALID_VALUE);
  std::string other = "x";
  std::thread([&] { other = warpsmith_last_error(); }).join();
  EXPECT_EQ(other, "");
  EXPECT_NE(std::string(warpsmith_last_error()).find("the pointer to the handle is null"), std::string::npos);
}

TEST(CApi, VersionsAgree) {
  EXPECT_EQ(warpsmith_version(), WARPSMITH_VERSION);
  const std::string text = std::to_string(WARPSMITH_VERSION_MAJOR) + "." + std::to_string(WARPSMITH_VERSION_MINOR) +
                           "." + std::to_string(WARPSMITH_VERSION_PATCH);
  EXPECT_EQ(warpsmith_version_string(), text);
}

TEST(CApi, StatusStrings) {
  EXPECT_STREQ(warpsmith_status_string(WARPSMITH_STATUS_SUCCESS), "success");
  EXPECT_STREQ(warpsmith_status_string(static_cast<warpsmith_status_t>(1234)), "unknown status");
}

TEST(CppApi, ThrowsTheStatus) {
  try {
    const warpsmith::Handle handle;
    FAIL() << "a handle without a device";
  } catch (const warpsmith::StatusError& error) {
    EXPECT_EQ(error.status(), WARPSMITH_STATUS_NO_DEVICE);
    EXPECT_STRNE(error.what(), "");
  }
}

}  // namespace
