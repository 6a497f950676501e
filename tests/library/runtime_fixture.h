// The runtime over a driver that only writes down what it is asked: a wisdom file and a pack of a few problems, handles
// over them, and what is launched.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "codegen/generate.h"
#include "fake_cublaslt.h"
#include "fake_driver.h"
#include "library/pack_builder.h"
#include "recipe/direct_plan.h"
#include "recipe/sm90_plan.h"
#include "warpsmith/hgemm.hpp"

namespace warpsmith::library {

namespace fs = std::filesystem;

inline void* driver_library() {
  static void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  return library;
}
template <class Entry>
Entry entry(const char* name) {
  return reinterpret_cast<Entry>(dlsym(driver_library(), name));
}
inline const fake::Log& driver_log() { return entry<fake::LogFunction>("fake_log")(); }
inline void reset_log() { entry<fake::ResetFunction>("fake_reset")(); }

inline void short_of(unsigned what) { entry<fake::ShortFunction>("fake_short")(what); }
inline const fake::LtLog& cublaslt_log() {
  static void* library = dlopen("libcublasLt.so." WARPSMITH_CUBLASLT_VERSION, RTLD_NOW | RTLD_LOCAL);
  return reinterpret_cast<fake::LtLogFunction>(dlsym(library, "fake_lt_log"))();
}

inline void set_device(int device) {
  entry<CUresult (*)(CUcontext)>("cuCtxSetCurrent")(reinterpret_cast<CUcontext>(fake::context_of(device)));
}
inline std::uintptr_t current_context() {
  CUcontext current = nullptr;
  entry<CUresult (*)(CUcontext*)>("cuCtxGetCurrent")(&current);
  return reinterpret_cast<std::uintptr_t>(current);
}

inline CUstream stream_of(std::uintptr_t number) { return reinterpret_cast<CUstream>(number << 8); }
inline void* address(std::uintptr_t number) { return reinterpret_cast<void*>(number << 12); }

// Recipes: tiny takes pointers alone, sm90 tensor maps; with stream-K it takes a workspace.
inline constexpr const char* kTinyProblem = "64x64x64 tn f16 f32";
inline constexpr const char* kMapProblem = "512x1024x256 tn f16 f32";
inline constexpr const char* kWorkspaceProblem = "128x256x16384 tn f16 f32";
inline constexpr const char* kLargeProblem = "1024x1024x1024 tn f16 f32";  // a batch of these is a loop
inline constexpr const char* kLostProblem = "4096x4096x128 tn f16 f32";    // cuBLASLt was faster

inline WisdomHeader header() {
  WisdomHeader made;
  made.machine = fake::kDeviceName;
  made.compute_capability = 90;
  made.units = 132;
  made.target = Target::sm90;
  return made;
}

inline Machine machine() {
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
inline std::string stream_k_recipe() {
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
    short_of(fake::kShortOfNothing);
  }
  void TearDown() override { short_of(fake::kShortOfNothing); }

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

}  // namespace warpsmith::library
