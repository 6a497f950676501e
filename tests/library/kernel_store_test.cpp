// Fetching kernels: what becomes of those who wait when a fetch ends badly, and what is said when there is no compiler.
#include "library/runtime/kernel_store.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <future>
#include <new>
#include <thread>

#include "library/pack_builder.h"
#include "recipe/recipe.h"

namespace warpsmith::library {
namespace {

namespace fs = std::filesystem;

class KernelStoreTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "warpsmith-store-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    WisdomHeader header;
    header.machine = "NVIDIA H200";
    header.compute_capability = 90;
    header.units = 132;
    const Machine machine = machine_of(header);
    const Problem problem = parse_problem("64x64x64 tn f16 f32").value();
    for (const Recipe& recipe : tiny_family().starting_points(problem, machine)) {
      auto candidate = generate(recipe, problem, machine);
      if (candidate) candidates_.push_back(std::move(*candidate));
    }
    ASSERT_GE(candidates_.size(), 1U);
    PackWriter writer{nlohmann::json::object()};
    writer.add(kernel_key(candidates_.front().arch, candidates_.front().source), "cubin");
    ASSERT_TRUE(writer.write(folder_ / "x.wspack").ok());
    auto pack = Pack::open(folder_ / "x.wspack");
    ASSERT_TRUE(pack) << pack.error().message;
    pack_ = std::make_shared<const Pack>(std::move(*pack));
  }
  void TearDown() override { fs::remove_all(folder_); }

  CompilerOptions without_compiler() const {
    return {.cache = folder_ / "cache", .nvrtc_helper = "/nonexistent/warpsmith-nvrtc"};
  }

  fs::path folder_;
  std::vector<Candidate> candidates_;
  std::shared_ptr<const Pack> pack_;
};

TEST_F(KernelStoreTest, AnExceptionLetsTheNextCallTry) {
  Driver cuda{};
  cuda.module_load = [](CUmodule*, const void*) -> CUresult { throw std::bad_alloc(); };
  // Kept by the thread, which the test leaves behind where it waits for ever.
  const auto store = std::make_shared<KernelStore>(cuda, pack_, without_compiler(), false);
  bool short_of_memory = false;
  EXPECT_THROW(static_cast<void>(store->get(candidates_.front(), short_of_memory)), std::bad_alloc);
  const auto again = std::make_shared<std::promise<bool>>();
  std::thread([store, again, candidate = candidates_.front()] {
    bool no_memory = false;
    try {
      static_cast<void>(store->get(candidate, no_memory));
      again->set_value(false);
    } catch (const std::bad_alloc&) {
      again->set_value(true);
    }
  }).detach();
  auto threw = again->get_future();
  ASSERT_EQ(threw.wait_for(std::chrono::seconds(20)), std::future_status::ready);
  EXPECT_TRUE(threw.get());
}

TEST_F(KernelStoreTest, ALackOfMemoryIsNotRemembered) {
  static CUresult answer;
  answer = CUDA_ERROR_OUT_OF_MEMORY;
  Driver cuda{};
  cuda.get_error_name = [](CUresult, const char** name) {
    *name = "CUDA_ERROR_OUT_OF_MEMORY";
    return CUDA_SUCCESS;
  };
  cuda.module_load = [](CUmodule*, const void*) { return answer; };
  cuda.module_unload = [](CUmodule) { return CUDA_SUCCESS; };
  KernelStore store(cuda, pack_, without_compiler(), false);
  bool short_of_memory = false;
  EXPECT_FALSE(store.get(candidates_.front(), short_of_memory));
  EXPECT_TRUE(short_of_memory);
  EXPECT_EQ(store.origin(candidates_.front()), CubinOrigin::pack);
  answer = CUDA_SUCCESS;
  EXPECT_TRUE(store.get(candidates_.front(), short_of_memory));
  EXPECT_FALSE(short_of_memory);
}

TEST_F(KernelStoreTest, WithoutACompilerOneLineSaysSo) {
  Candidate other = candidates_.front();
  other.source += "// another\n";
  const Driver cuda{};
  for (const bool compiles : {true, false}) {
    KernelStore store(cuda, pack_, without_compiler(), compiles);
    bool short_of_memory = false;
    testing::internal::CaptureStderr();
    for (int i = 0; i < 2; ++i) EXPECT_FALSE(store.get(other, short_of_memory));
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_FALSE(short_of_memory);
    EXPECT_EQ(store.origin(other), std::nullopt);
    EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), compiles ? 1 : 0) << said;
    if (!compiles) continue;
    EXPECT_EQ(said.rfind("warpsmith: no compiler", 0), 0U) << said;
    EXPECT_NE(said.find("/nonexistent/warpsmith-nvrtc"), std::string::npos) << said;
    EXPECT_NE(said.find("WARPSMITH_NVRTC"), std::string::npos) << said;
  }
}

}  // namespace
}  // namespace warpsmith::library
