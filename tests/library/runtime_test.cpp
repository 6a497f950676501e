// The runtime over a driver that only writes down what it is asked: what is launched with which parameters, and what
// the hot path does not do.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <new>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "codegen/generate.h"
#include "fake_driver.h"
#include "heap_count.h"
#include "library/pack_builder.h"
#include "recipe/direct_plan.h"
#include "recipe/sm90_plan.h"
#include "warpsmith/hgemm.hpp"

namespace warpsmith::library {
namespace {

namespace fs = std::filesystem;

void* driver_library() {
  static void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  return library;
}
template <class Entry>
Entry entry(const char* name) {
  return reinterpret_cast<Entry>(dlsym(driver_library(), name));
}
const fake::Log& driver_log() { return entry<fake::LogFunction>("fake_log")(); }
void reset_log() { entry<fake::ResetFunction>("fake_reset")(); }

void set_device(int device) {
  entry<CUresult (*)(CUcontext)>("cuCtxSetCurrent")(reinterpret_cast<CUcontext>(fake::context_of(device)));
}
std::uintptr_t current_context() {
  CUcontext current = nullptr;
  entry<CUresult (*)(CUcontext*)>("cuCtxGetCurrent")(&current);
  return reinterpret_cast<std::uintptr_t>(current);
}

CUstream stream_of(std::uintptr_t number) { return reinterpret_cast<CUstream>(number << 8); }
void* address(std::uintptr_t number) { return reinterpret_cast<void*>(number << 12); }

// Recipes: tiny takes pointers alone, sm90 tensor maps; with stream-K it takes a workspace.
constexpr const char* kTinyProblem = "64x64x64 tn f16 f32";
constexpr const char* kMapProblem = "512x1024x256 tn f16 f32";
constexpr const char* kWorkspaceProblem = "128x256x16384 tn f16 f32";
constexpr const char* kLargeProblem = "1024x1024x1024 tn f16 f32";  // a batch of these is a loop
constexpr const char* kLostProblem = "4096x4096x128 tn f16 f32";    // cuBLASLt was faster

WisdomHeader header() {
  WisdomHeader made;
  made.machine = fake::kDeviceName;
  made.compute_capability = 90;
  made.units = 132;
  made.target = Target::sm90;
  return made;
}

Machine machine() {
  Machine made = machine_of(header());
  for (std::size_t i = 0; i < made.resident_clusters.size(); ++i) made.resident_clusters[i] = 132 / (2 << i);
  return made;
}

// A legal recipe of the family for which `accepts` holds.
template <class Accepts>
std::string recipe_for(const Family& family, const char* text, Accepts accepts) {
  const Problem problem = parse_problem(text).value();
  for (Recipe recipe : family.starting_points(problem, machine())) {
    if (!is_legal(recipe, problem, machine())) continue;
    const auto candidate = generate(recipe, problem, machine());
    if (candidate && accepts(std::get<CudaLaunch>(candidate->launch))) return to_string(recipe);
  }
  return {};
}

// The one with the smallest workspace among the starting points and their neighbours.
std::string stream_k_recipe() {
  const Problem problem = parse_problem(kWorkspaceProblem).value();
  std::string best;
  std::int64_t fewest_bytes = INT64_MAX;
  for (const Recipe& recipe : sm90_family().starting_points(problem, machine())) {
    for (const KnobField* field : sm90_family().fields()) {
      for (const int value : field->values) {
        Recipe other = recipe;
        other.set(field->name, value);
        if (!is_legal(other, problem, machine())) continue;
        const std::int64_t bytes = sm90_workspace_bytes(sm90_knobs(other), problem, machine());
        if (bytes > 0 && bytes < fewest_bytes) {
          fewest_bytes = bytes;
          best = to_string(other);
        }
      }
    }
  }
  return best;
}

class RuntimeTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    std::string name = (fs::temp_directory_path() / "warpsmith-runtime-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    ASSERT_NE(dlsym(driver_library(), "fake_log"), nullptr) << "the real driver was opened";
    const auto any = [](const CudaLaunch&) { return true; };
    Wisdom wisdom(header());
    const auto add = [&](const char* text, const std::string& recipe, double time_us) {
      ASSERT_FALSE(recipe.empty()) << text;
      WisdomEntry made;
      made.problem = parse_problem(text).value();
      made.recipe = recipe;
      made.cold_us = time_us;
      made.baseline = "cublaslt-auto-tn";
      made.baseline_us = 10;
      if (std::string_view(text) == kTinyProblem) {
        made.pdl_recipe = to_string(Recipe(*parse_recipe(recipe)).set("pdl", kDirectPdlLate));
        made.pdl_us = 4;
      }
      wisdom.merge(made);
    };
    add(kTinyProblem, recipe_for(tiny_family(), kTinyProblem, any), 5);
    add(kMapProblem,
        recipe_for(sm90_family(), kMapProblem, [](const CudaLaunch& launch) { return launch.workspace_bytes == 0; }),
        5);
    add(kWorkspaceProblem, stream_k_recipe(), 5);
    add(kLargeProblem, recipe_for(sm90_family(), kLargeProblem, any), 5);
    add(kLostProblem, recipe_for(sm90_family(), kLostProblem, any), 11);
    ASSERT_TRUE(wisdom.save(folder_ / "wisdom.jsonl").ok());
    wisdom_ = (folder_ / "wisdom.jsonl").string();
    pack_ = (folder_ / "h200.wspack").string();
    cache_ = (folder_ / "cache").string();
    // The driver runs nothing, so what a cubin holds does not matter here, only that it is found.
    PackWriter writer{nlohmann::json::object()};
    for (const auto& [key, candidate] : plan_pack(wisdom, machine(), {}, {}).kernels)
      writer.add(key, "cubin of " + key);
    ASSERT_TRUE(writer.write(pack_).ok());
  }
  static void TearDownTestSuite() { fs::remove_all(folder_); }

  void SetUp() override {
    reset_log();
    entry<fake::RecordFunction>("fake_record")(true);
    entry<fake::ExpectFunction>("fake_expect")({});
  }

  static Handle handle(warpsmith_fallback_t fallback = WARPSMITH_FALLBACK_NONE,
                       warpsmith_launch_t launch = WARPSMITH_LAUNCH_PLAIN) {
    warpsmith_options_t options{};
    options.fallback = fallback;
    options.launch = launch;
    options.compile = WARPSMITH_COMPILE_NEVER;
    options.wisdom_path = wisdom_.c_str();
    options.pack_path = pack_.c_str();
    options.cache_path = cache_.c_str();
    return Handle(options);
  }

  // The launch that the wisdom's recipe makes for a problem, to compare with.
  static CudaLaunch launch_of(const char* text, Scaling scaling = Scaling::none) {
    Problem problem = parse_problem(text).value();
    const auto wisdom = Wisdom::load(wisdom_);
    const auto recipe = parse_recipe(wisdom->find(problem)->recipe);
    problem.scaling = scaling;
    return std::get<CudaLaunch>(generate(*recipe, problem, machine())->launch);
  }
  // Tells the driver how large the parameters of that launch are.
  static void expect(const CudaLaunch& launch) {
    std::vector<std::size_t> sizes;
    for (const KernelArgument& argument : launch.kernels.front().arguments) {
      switch (argument.kind) {
        case KernelArgument::Kind::pointer:
        case KernelArgument::Kind::workspace:
          sizes.push_back(8);
          break;
        case KernelArgument::Kind::tensor_map:
          sizes.push_back(128);
          break;
        default:
          sizes.push_back(4);
      }
    }
    entry<fake::ExpectFunction>("fake_expect")(sizes);
  }

  static warpsmith_status_t gemm(const Handle& handle, const char* text, CUstream stream = nullptr, float alpha = 1,
                                 float beta = 0, const void* a = address(1), const void* b = address(2),
                                 void* c = address(3)) {
    const Problem p = parse_problem(text).value();
    return warpsmith_gemm(handle.get(), WARPSMITH_OP_N, WARPSMITH_OP_T, p.m, p.n, p.k, alpha, a, p.a_ld(), b, p.b_ld(),
                          beta, c, p.c_ld(), WARPSMITH_F16, WARPSMITH_COMPUTE_32F, stream);
  }

  template <class T>
  static T value(const fake::Launch& launch, std::size_t parameter) {
    T out{};
    EXPECT_EQ(launch.values.at(parameter).size() >= sizeof out, true);
    std::memcpy(&out, launch.values.at(parameter).data(), sizeof out);
    return out;
  }

  // Every parameter of a launch against what the descriptor says.
  static void compare(const fake::Launch& made, const CudaLaunch& launch, float alpha, float beta) {
    const KernelLaunch& kernel = launch.kernels.front();
    EXPECT_EQ(made.function, kernel.entry);
    EXPECT_EQ(made.grid, static_cast<unsigned>(kernel.grid[0]));
    EXPECT_EQ(made.block, static_cast<unsigned>(kernel.block[0]));
    const void* operands[] = {address(1), address(2), address(3)};
    ASSERT_EQ(made.values.size(), kernel.arguments.size());
    for (std::size_t i = 0; i < kernel.arguments.size(); ++i) {
      const KernelArgument& argument = kernel.arguments[i];
      switch (argument.kind) {
        case KernelArgument::Kind::pointer:
          EXPECT_EQ(value<const void*>(made, i), operands[static_cast<int>(argument.operand)]);
          break;
        case KernelArgument::Kind::workspace:
          EXPECT_NE(value<const void*>(made, i), nullptr);
          break;
        case KernelArgument::Kind::int32:
          EXPECT_EQ(value<std::int32_t>(made, i), argument.value);
          break;
        case KernelArgument::Kind::float32:
          EXPECT_EQ(value<float>(made, i), argument.real);
          break;
        case KernelArgument::Kind::alpha:
          EXPECT_EQ(value<float>(made, i), alpha);
          break;
        case KernelArgument::Kind::beta:
          EXPECT_EQ(value<float>(made, i), beta);
          break;
        case KernelArgument::Kind::tensor_map: {
          const auto map = value<fake::Map>(made, i);
          EXPECT_EQ(map.address, operands[static_cast<int>(argument.map.operand)]);
          EXPECT_EQ(map.dims[0], static_cast<std::uint64_t>(argument.map.dims[0]));
          EXPECT_EQ(map.dims[1], static_cast<std::uint64_t>(argument.map.dims[1]));
          EXPECT_EQ(map.stride_bytes, static_cast<std::uint64_t>(2 * argument.map.ld));
          EXPECT_EQ(map.box[0], static_cast<std::uint32_t>(argument.map.box[0]));
          break;
        }
      }
    }
  }

  static inline fs::path folder_;
  static inline std::string wisdom_, pack_, cache_;
};

TEST_F(RuntimeTest, LaunchesWhatTheRecipeSays) {
  const Handle made = handle();
  for (const char* problem : {kTinyProblem, kMapProblem, kWorkspaceProblem}) {
    const CudaLaunch launch = launch_of(problem);
    expect(launch);
    reset_log();
    for (int i = 0; i < 2; ++i)
      ASSERT_EQ(gemm(made, problem, stream_of(5)), WARPSMITH_STATUS_SUCCESS) << warpsmith_last_error();
    ASSERT_EQ(driver_log().launches.size(), 2U);
    for (const fake::Launch& each : driver_log().launches) {
      EXPECT_EQ(each.stream, stream_of(5));
      compare(each, launch, 1, 0);
    }
  }
}

TEST_F(RuntimeTest, AlphaAndBetaReachTheKernel) {
  const Handle made = handle();
  const CudaLaunch launch = launch_of(kTinyProblem, Scaling::alpha_beta);
  ASSERT_TRUE(launch.takes_scaling());
  expect(launch);
  ASSERT_EQ(gemm(made, kTinyProblem, nullptr, 0.5F, -1), WARPSMITH_STATUS_SUCCESS) << warpsmith_last_error();
  compare(driver_log().launches.at(0), launch, 0.5F, -1);
  ASSERT_EQ(gemm(made, kTinyProblem, nullptr, 2, 0), WARPSMITH_STATUS_SUCCESS);
  compare(driver_log().launches.at(1), launch, 2, 0);
}

TEST_F(RuntimeTest, DependentLaunchesCarryTheirAttribute) {
  const Handle plain = handle(), dependent = handle(WARPSMITH_FALLBACK_NONE, WARPSMITH_LAUNCH_DEPENDENT);
  ASSERT_EQ(gemm(plain, kTinyProblem), WARPSMITH_STATUS_SUCCESS);
  EXPECT_FALSE(driver_log().launches.at(0).dependent);
  ASSERT_EQ(gemm(dependent, kTinyProblem), WARPSMITH_STATUS_SUCCESS) << warpsmith_last_error();
  EXPECT_TRUE(driver_log().launches.at(1).dependent);
  ASSERT_EQ(gemm(dependent, kMapProblem), WARPSMITH_STATUS_SUCCESS);  // has no such recipe
  EXPECT_FALSE(driver_log().launches.at(2).dependent);
}

TEST_F(RuntimeTest, WarmCallsOnlyLaunch) {
  const Handle made = handle();
  for (const char* problem : {kTinyProblem, kMapProblem, kWorkspaceProblem}) {
    for (int i = 0; i < 3; ++i) ASSERT_EQ(gemm(made, problem, stream_of(6)), WARPSMITH_STATUS_SUCCESS);
  }
  entry<fake::RecordFunction>("fake_record")(false);
  reset_log();
  const std::int64_t before = heap_allocations();
  for (int i = 0; i < 100; ++i) {
    const warpsmith_status_t status =
        warpsmith_gemm(made.get(), WARPSMITH_OP_N, WARPSMITH_OP_T, 512, 1024, 256, 1, address(1), 256, address(2), 256,
                       0, address(3), 1024, WARPSMITH_F16, WARPSMITH_COMPUTE_32F, stream_of(6));
    const warpsmith_status_t other =
        warpsmith_gemm(made.get(), WARPSMITH_OP_N, WARPSMITH_OP_T, 128, 256, 16384, 1, address(1), 16384, address(2),
                       16384, 0, address(3), 256, WARPSMITH_F16, WARPSMITH_COMPUTE_32F, stream_of(6));
    ASSERT_TRUE(status == WARPSMITH_STATUS_SUCCESS && other == WARPSMITH_STATUS_SUCCESS);
  }
  EXPECT_EQ(heap_allocations(), before);
  ::operator delete(::operator new(8));
  EXPECT_GT(heap_allocations(), before);  // the counter counts
  const fake::Log& log = driver_log();
  EXPECT_EQ(log.encodes, 0);
  EXPECT_EQ(log.allocations, 0);
  EXPECT_EQ(log.memsets, 0);
  EXPECT_EQ(log.synchronizations, 0);
  EXPECT_EQ(log.loads, 0);
}

TEST_F(RuntimeTest, AMapIsEncodedOncePerAddress) {
  const Handle made = handle();
  const CudaLaunch launch = launch_of(kMapProblem);
  expect(launch);
  ASSERT_EQ(gemm(made, kMapProblem), WARPSMITH_STATUS_SUCCESS);
  const std::int64_t maps = driver_log().encodes;
  EXPECT_GE(maps, 2);
  ASSERT_EQ(gemm(made, kMapProblem), WARPSMITH_STATUS_SUCCESS);
  EXPECT_EQ(driver_log().encodes, maps);
  ASSERT_EQ(gemm(made, kMapProblem, nullptr, 1, 0, address(9)), WARPSMITH_STATUS_SUCCESS);
  EXPECT_EQ(driver_log().encodes, maps + 1);
  // Far more addresses than the cache has places: each launch still has its own.
  for (std::uintptr_t i = 10; i < 2000; ++i) {
    reset_log();
    ASSERT_EQ(gemm(made, kMapProblem, nullptr, 1, 0, address(i), address(2 * i + 1)), WARPSMITH_STATUS_SUCCESS);
    const fake::Launch& last = driver_log().launches.at(0);
    for (std::size_t at = 0; at < launch.kernels.front().arguments.size(); ++at) {
      const KernelArgument& argument = launch.kernels.front().arguments[at];
      if (argument.kind != KernelArgument::Kind::tensor_map) continue;
      const void* wanted = argument.map.operand == Operand::a   ? address(i)
                           : argument.map.operand == Operand::b ? address(2 * i + 1)
                                                                : address(3);
      ASSERT_EQ(value<fake::Map>(last, at).address, wanted);
    }
  }
}

TEST_F(RuntimeTest, EveryStreamAndCaptureHasAWorkspaceOfItsOwn) {
  const Handle made = handle();
  const CudaLaunch launch = launch_of(kWorkspaceProblem);
  expect(launch);
  std::size_t parameter = 0;
  while (launch.kernels.front().arguments.at(parameter).kind != KernelArgument::Kind::workspace) ++parameter;
  const auto workspace = [&](CUstream stream) {
    EXPECT_EQ(gemm(made, kWorkspaceProblem, stream), WARPSMITH_STATUS_SUCCESS) << warpsmith_last_error();
    return value<std::byte*>(driver_log().launches.back(), parameter);
  };
  std::byte* first = workspace(stream_of(1));
  std::byte* second = workspace(stream_of(2));
  EXPECT_NE(first, second);
  EXPECT_EQ(workspace(stream_of(1)), first);
  EXPECT_EQ(workspace(nullptr), workspace(reinterpret_cast<CUstream>(1)));  // two names of the default stream
  for (std::int64_t i = 0; i < launch.workspace_bytes; ++i) ASSERT_EQ(first[i], std::byte{0});
  const auto capture = entry<fake::CaptureFunction>("fake_capture");
  capture(stream_of(1), 7);
  std::byte* captured = workspace(stream_of(1));
  EXPECT_NE(captured, first);
  EXPECT_EQ(workspace(stream_of(1)), captured);
  capture(stream_of(1), 8);
  EXPECT_NE(workspace(stream_of(1)), captured);
  capture(stream_of(1), 0);
  EXPECT_EQ(workspace(stream_of(1)), first);
  // Each thread has a per-thread default stream of its own.
  std::byte *mine = workspace(reinterpret_cast<CUstream>(2)), *theirs = nullptr;
  std::thread([&] { theirs = workspace(reinterpret_cast<CUstream>(2)); }).join();
  EXPECT_NE(mine, theirs);
  // More streams than the lock-free table holds.
  std::vector<std::byte*> all;
  for (std::uintptr_t i = 100; i < 400; ++i) all.push_back(workspace(stream_of(i)));
  std::sort(all.begin(), all.end());
  EXPECT_EQ(std::unique(all.begin(), all.end()), all.end());
}

TEST_F(RuntimeTest, EverythingIsFreedWithTheHandle) {
  {
    const Handle made = handle();
    ASSERT_EQ(gemm(made, kWorkspaceProblem, stream_of(1)), WARPSMITH_STATUS_SUCCESS);
  }
  EXPECT_GT(driver_log().allocations, 0);
  EXPECT_EQ(driver_log().frees, driver_log().allocations);
  EXPECT_EQ(driver_log().unloads, driver_log().loads);
}

TEST_F(RuntimeTest, WithoutAFallbackTheCallIsNotCovered) {
  const Handle made = handle();
  EXPECT_EQ(gemm(made, kLostProblem), WARPSMITH_STATUS_NOT_COVERED);
  EXPECT_EQ(gemm(made, kTinyProblem, nullptr, 1, 0, static_cast<char*>(address(1)) + 2), WARPSMITH_STATUS_NOT_COVERED);
  EXPECT_EQ(gemm(made, "64x64x63 tn f16 f32"), WARPSMITH_STATUS_NOT_COVERED);
  EXPECT_TRUE(driver_log().launches.empty());
}

TEST_F(RuntimeTest, BadInputLaunchesNothing) {
  const Handle made = handle();
  ASSERT_EQ(gemm(made, kTinyProblem), WARPSMITH_STATUS_SUCCESS);  // known now: the short way has to refuse as well
  reset_log();
  EXPECT_EQ(gemm(made, kTinyProblem, nullptr, 1, 0, nullptr), WARPSMITH_STATUS_INVALID_VALUE);
  EXPECT_EQ(gemm(made, kTinyProblem, nullptr, 1, 0, address(1), nullptr), WARPSMITH_STATUS_INVALID_VALUE);
  EXPECT_EQ(gemm(made, kTinyProblem, nullptr, 1, 0, address(1), address(2), nullptr), WARPSMITH_STATUS_INVALID_VALUE);
  EXPECT_EQ(gemm(made, kTinyProblem, nullptr, 1, 0, static_cast<char*>(address(1)) + 1),
            WARPSMITH_STATUS_INVALID_VALUE);
  EXPECT_EQ(warpsmith_gemm(made.get(), WARPSMITH_OP_N, WARPSMITH_OP_T, 64, 64, 64, 1, address(1), 63, address(2), 64, 0,
                           address(3), 64, WARPSMITH_F16, WARPSMITH_COMPUTE_32F, nullptr),
            WARPSMITH_STATUS_INVALID_VALUE);
  EXPECT_EQ(warpsmith_gemm(made.get(), static_cast<warpsmith_op_t>(7), WARPSMITH_OP_T, 64, 64, 64, 1, address(1), 64,
                           address(2), 64, 0, address(3), 64, WARPSMITH_F16, WARPSMITH_COMPUTE_32F, nullptr),
            WARPSMITH_STATUS_INVALID_VALUE);
  EXPECT_TRUE(driver_log().launches.empty());
}

TEST_F(RuntimeTest, ThreadsOfAnotherDeviceAreRefused) {
  const Handle made = handle();
  ASSERT_EQ(gemm(made, kTinyProblem), WARPSMITH_STATUS_SUCCESS);
  warpsmith_problem_t problem{};
  problem.op_b = WARPSMITH_OP_T;
  problem.m = problem.n = problem.k = problem.lda = problem.ldb = problem.ldc = 64;
  problem.batch_count = 1;
  const Plan plan(made, problem);
  warpsmith_plan_t other = nullptr;
  std::string text(8192, '\0');
  reset_log();
  set_device(1);
  EXPECT_EQ(gemm(made, kTinyProblem), WARPSMITH_STATUS_WRONG_DEVICE);
  EXPECT_EQ(gemm(made, kMapProblem), WARPSMITH_STATUS_WRONG_DEVICE);               // one that is not known yet
  EXPECT_EQ(gemm(made, kTinyProblem, nullptr, 0), WARPSMITH_STATUS_WRONG_DEVICE);  // only scales C
  EXPECT_EQ(warpsmith_plan_create(made.get(), &problem, &other), WARPSMITH_STATUS_WRONG_DEVICE);
  EXPECT_THROW(plan.run(address(1), address(2), address(3)), StatusError);
  EXPECT_EQ(warpsmith_explain(made.get(), &problem, text.data(), text.size()), WARPSMITH_STATUS_WRONG_DEVICE);
  EXPECT_EQ(driver_log().launches.size() + static_cast<std::size_t>(driver_log().memsets), 0U);
  set_device(0);
  EXPECT_EQ(gemm(made, kTinyProblem), WARPSMITH_STATUS_SUCCESS);
  warpsmith_status_t fresh = WARPSMITH_STATUS_INTERNAL_ERROR;
  std::thread([&] { fresh = gemm(made, kTinyProblem); }).join();  // has device 0, as with the CUDA runtime
  EXPECT_EQ(fresh, WARPSMITH_STATUS_SUCCESS);
}

// One thread that changes its device from call to call, and the same problem on each.
TEST_F(RuntimeTest, HandlesOfTwoDevicesStandSideBySide) {
  const Handle first = handle();
  set_device(1);
  std::optional<Handle> second(handle());
  for (const char* problem : {kTinyProblem, kMapProblem, kWorkspaceProblem}) {
    for (int round = 0; round < 2; ++round) {
      for (int device = 0; device < fake::kDevices; ++device) {
        set_device(device);
        reset_log();
        ASSERT_EQ(gemm(device == 0 ? first : *second, problem), WARPSMITH_STATUS_SUCCESS) << warpsmith_last_error();
        ASSERT_EQ(driver_log().launches.size(), 1U);
        EXPECT_EQ(driver_log().launches.front().context, fake::context_of(device));
      }
    }
  }
  // A thread without a device has the first one, not the second, before and after it destroys a handle of that.
  warpsmith_status_t refused = WARPSMITH_STATUS_SUCCESS, accepted = WARPSMITH_STATUS_INTERNAL_ERROR;
  std::uintptr_t left = 1;
  reset_log();
  std::thread([&] {
    refused = gemm(*second, kTinyProblem);
    second.reset();
    left = current_context();
    accepted = gemm(first, kTinyProblem);
  }).join();
  EXPECT_EQ(refused, WARPSMITH_STATUS_WRONG_DEVICE);
  EXPECT_EQ(left, 0U);
  EXPECT_GT(driver_log().unloads, 0);  // in the context that they were in
  EXPECT_EQ(accepted, WARPSMITH_STATUS_SUCCESS);
  set_device(0);
}

TEST_F(RuntimeTest, ProductsWithoutTermsOnlyScale) {
  const Handle made = handle();
  std::vector<std::uint16_t> c(64 * 64, 0x7e00);
  const auto run = [&](std::int64_t m, std::int64_t k, float alpha, float beta, std::int64_t ldc) {
    reset_log();
    return warpsmith_gemm(made.get(), WARPSMITH_OP_N, WARPSMITH_OP_N, m, 32, k, alpha, nullptr, 64, nullptr, 32, beta,
                          c.data(), ldc, WARPSMITH_F16, WARPSMITH_COMPUTE_32F, nullptr);
  };
  EXPECT_EQ(run(0, 8, 1, 0, 32), WARPSMITH_STATUS_SUCCESS);
  EXPECT_EQ(driver_log().memsets + static_cast<std::int64_t>(driver_log().launches.size()), 0);
  EXPECT_EQ(run(64, 0, 1, 0, 32), WARPSMITH_STATUS_SUCCESS);
  EXPECT_EQ(driver_log().memsets, 1);
  EXPECT_EQ(c[64 * 32 - 1], 0);
  EXPECT_EQ(c[64 * 32], 0x7e00);
  EXPECT_EQ(run(64, 0, 1, 0, 40), WARPSMITH_STATUS_SUCCESS);  // gaps between rows are not ours
  EXPECT_EQ(driver_log().memsets, 0);
  EXPECT_EQ(driver_log().launches.size(), 1U);
  EXPECT_EQ(run(64, 8, 0, 0.5F, 32), WARPSMITH_STATUS_SUCCESS);
  EXPECT_EQ(driver_log().launches.at(0).function, "warpsmith_scale");
  EXPECT_EQ(run(64, 8, 0, 1, 32), WARPSMITH_STATUS_SUCCESS);
  EXPECT_TRUE(driver_log().launches.empty());
}

TEST_F(RuntimeTest, LargeBatchesAreLoopsAndSmallOnesAreNot) {
  const Handle made = handle();
  const Problem p = parse_problem(kWorkspaceProblem).value();  // 1.07 GFLOP
  const auto run = [&](std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t stride) {
    reset_log();
    return warpsmith_gemm_strided_batched(made.get(), WARPSMITH_OP_N, WARPSMITH_OP_T, m, n, k, 1, address(1), k, stride,
                                          address(2), k, 0, 0, address(3), n, m * n, 3, WARPSMITH_F16,
                                          WARPSMITH_COMPUTE_32F, nullptr);
  };
  EXPECT_EQ(run(p.m, p.n, p.k, p.m * p.k), WARPSMITH_STATUS_NOT_COVERED);
  EXPECT_EQ(run(1024, 1024, 1024, 1024 * 1024 + 1), WARPSMITH_STATUS_NOT_COVERED);  // odd strides
  const CudaLaunch launch = launch_of(kLargeProblem);
  expect(launch);
  const std::int64_t stride = 1024 * 1024 + 8;
  ASSERT_EQ(run(1024, 1024, 1024, stride), WARPSMITH_STATUS_SUCCESS) << warpsmith_last_error();
  ASSERT_EQ(driver_log().launches.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    for (std::size_t at = 0; at < launch.kernels.front().arguments.size(); ++at) {
      const KernelArgument& argument = launch.kernels.front().arguments[at];
      if (argument.kind != KernelArgument::Kind::tensor_map || argument.map.operand == Operand::c) continue;
      const auto map = value<fake::Map>(driver_log().launches[i], at);
      const auto offset = static_cast<std::uintptr_t>(argument.map.operand == Operand::a ? 2 * stride : 0) * i;
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(map.address),
                reinterpret_cast<std::uintptr_t>(address(argument.map.operand == Operand::a ? 1 : 2)) + offset);
    }
  }
}

TEST_F(RuntimeTest, PlansLaunchWithoutALookUp) {
  const Handle made = handle();
  warpsmith_problem_t problem{};
  problem.m = problem.n = problem.k = 64;
  problem.op_b = WARPSMITH_OP_T;
  const Plan plan(made, problem);
  const CudaLaunch launch = launch_of(kTinyProblem), scaled = launch_of(kTinyProblem, Scaling::alpha_beta);
  expect(launch);
  plan.run(address(1), address(2), address(3), stream_of(4));
  compare(driver_log().launches.at(0), launch, 1, 0);
  expect(scaled);
  plan.run(address(1), address(2), address(3), stream_of(4), 3, 0.25F);
  compare(driver_log().launches.at(1), scaled, 3, 0.25F);
  EXPECT_THROW(plan.run(address(1), nullptr, address(3)), StatusError);
  EXPECT_THROW(plan.run(static_cast<char*>(address(1)) + 2, address(2), address(3)), StatusError);  // no fallback
  EXPECT_EQ(driver_log().launches.size(), 2U);
}

TEST_F(RuntimeTest, ExplainTellsWhatTheCallDoes) {
  const Handle made = handle();
  warpsmith_problem_t problem{};
  problem.m = problem.n = problem.k = 64;
  problem.op_b = WARPSMITH_OP_T;
  reset_log();
  const auto json = nlohmann::json::parse(made.explain(problem));
  EXPECT_EQ(json["runs"], "kernel") << json.dump(1);
  EXPECT_EQ(json["source"], "wisdom");
  EXPECT_EQ(json["kernel"]["family"], "tiny");
  EXPECT_EQ(json["kernel"]["cubin"], "pack");
  EXPECT_EQ(json["device"], fake::kDeviceName);
  EXPECT_EQ(driver_log().loads, 0);
  problem.m = problem.n = 4096;
  problem.k = 128;
  EXPECT_EQ(nlohmann::json::parse(made.explain(problem))["runs"], "nothing");
  const Handle with_fallback = handle(WARPSMITH_FALLBACK_CUBLASLT);
  EXPECT_EQ(nlohmann::json::parse(with_fallback.explain(problem))["runs"], "cublaslt");
  problem.k = 0;
  EXPECT_EQ(nlohmann::json::parse(made.explain(problem))["runs"], "nothing");
}

TEST_F(RuntimeTest, DamagedFilesAreNamedOnceAndDoneWithout) {
  const std::string bad = (folder_ / "bad.jsonl").string();
  std::ofstream(bad) << "{\n";
  warpsmith_options_t options{};
  options.fallback = WARPSMITH_FALLBACK_NONE;
  options.compile = WARPSMITH_COMPILE_NEVER;
  options.wisdom_path = options.pack_path = bad.c_str();
  options.cache_path = cache_.c_str();
  testing::internal::CaptureStderr();
  const Handle made(options);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 2) << said;
  EXPECT_NE(said.find(bad), std::string::npos);
  EXPECT_EQ(gemm(made, kTinyProblem), WARPSMITH_STATUS_NOT_COVERED);
}

TEST_F(RuntimeTest, AnAlteredKernelOfThePackIsDoneWithout) {
  std::string bytes;
  {
    std::ifstream in(pack_, std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(in), {});
  }
  std::size_t at = 0;
  while ((at = bytes.find("cubin of ", at)) != std::string::npos) bytes[at] = 'X';
  const std::string altered = (folder_ / "altered.wspack").string();
  std::ofstream(altered, std::ios::binary) << bytes;
  warpsmith_options_t options{};
  options.fallback = WARPSMITH_FALLBACK_NONE;
  options.compile = WARPSMITH_COMPILE_NEVER;
  options.wisdom_path = wisdom_.c_str();
  options.pack_path = altered.c_str();
  options.cache_path = cache_.c_str();
  const Handle made(options);
  testing::internal::CaptureStderr();
  EXPECT_EQ(gemm(made, kTinyProblem), WARPSMITH_STATUS_NOT_COVERED);
  EXPECT_EQ(gemm(made, kMapProblem), WARPSMITH_STATUS_NOT_COVERED);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
  EXPECT_NE(said.find("altered"), std::string::npos);
}

TEST_F(RuntimeTest, ThreadsShareAHandle) {
  const Handle made = handle();
  entry<fake::RecordFunction>("fake_record")(false);
  std::atomic<int> errors{0};
  std::vector<std::thread> threads;
  for (std::uintptr_t t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (std::uintptr_t i = 0; i < 2000; ++i) {
        const char* problems[] = {kTinyProblem, kMapProblem, kWorkspaceProblem};
        if (gemm(made, problems[i % 3], stream_of(t * 4 + i % 4 + 1), 1, 0, address(i % 64 + 1)) !=
            WARPSMITH_STATUS_SUCCESS) {
          ++errors;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(errors, 0);
}

// Our part of a call's host time, the driver's left out. For people: a machine under load says little.
TEST_F(RuntimeTest, HostTimeOfACallIsPrinted) {
  const Handle made = handle();
  entry<fake::RecordFunction>("fake_record")(false);
  const auto call = [&] {
    return warpsmith_gemm(made.get(), WARPSMITH_OP_N, WARPSMITH_OP_T, 512, 1024, 256, 1, address(1), 256, address(2),
                          256, 0, address(3), 1024, WARPSMITH_F16, WARPSMITH_COMPUTE_32F, stream_of(6));
  };
  ASSERT_EQ(call(), WARPSMITH_STATUS_SUCCESS);
  constexpr int kCalls = 100000;
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kCalls; ++i) static_cast<void>(call());
  const double ns = std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count() / kCalls;
  std::printf("host time of a call without the driver's: %.0f ns\n", ns);
  RecordProperty("nanoseconds", static_cast<int>(ns));
}

}  // namespace
}  // namespace warpsmith::library
