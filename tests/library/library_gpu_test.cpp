// The library on a GPU: results of any call, bad input, graphs, plans, threads, several devices, damaged files.
//   WARPSMITH_LIBRARY_EVIDENCE=FILE  figures as JSON    WARPSMITH_ANY_SHAPE_CALLS=2000    WARPSMITH_THREAD_SECONDS=60
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

#include "base/file.h"
#include "gpu_support.h"
#include "library/pack.h"

namespace warpsmith::library::testing {
namespace {

using Clock = std::chrono::steady_clock;

void expect_right(const TestCall& call, cudaStream_t stream) {
  const Judged judged = call.judged(stream);
  EXPECT_EQ(judged.wrong, 0U) << call.describe();
  EXPECT_EQ(judged.touched, 0U) << call.describe();
  EXPECT_TRUE(judged.elements > 0 || call.shape().product.m == 0 || call.shape().product.n == 0) << call.describe();
}

void run_and_judge(const TestCall& call, const Handle& handle, const TestStream& stream) {
  call.fill(stream.get());
  ASSERT_EQ(call.run(handle.get(), stream.get()), WARPSMITH_STATUS_SUCCESS)
      << call.describe() << ": " << warpsmith_last_error();
  expect_right(call, stream.get());
}

TestCall::Shape random_shape(std::mt19937_64& random) {
  const auto pick = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  // Half of the sizes are spread over magnitudes, some are what kernels like, a few are zero.
  const auto size = [&]() -> std::int64_t {
    const std::int64_t kind = pick(0, 19);
    if (kind == 0) return 0;
    if (kind < 5) return pick(1, 16);
    if (kind < 11) return 8 * pick(1, 750);
    if (kind < 14) return pick(1, 6000);
    return static_cast<std::int64_t>(std::exp2(static_cast<double>(pick(0, 1250)) / 100));
  };
  TestCall::Shape shape;
  Product& p = shape.product;
  p = packed(size(), size(), size(), pick(0, 1) == 1, pick(0, 1) == 1);
  p.bf16 = pick(0, 1) == 1;
  constexpr float kScalars[] = {1, 0, -1, 0.5F};
  p.alpha = kScalars[pick(0, 3)];
  p.beta = kScalars[pick(0, 3)];
  if (pick(0, 1) == 1) p.alpha = 1, p.beta = 0;
  for (std::int64_t* ld : {&p.lda, &p.ldb, &p.ldc}) {
    const std::int64_t kind = pick(0, 5);
    if (kind == 0) *ld += pick(1, 40);
    if (kind == 1) *ld = (*ld + 15) / 8 * 8;
  }
  for (int* offset : {&shape.offset_a, &shape.offset_b, &shape.offset_c}) {
    if (pick(0, 9) == 0) *offset = static_cast<int>(pick(0, 8));
  }
  if (pick(0, 7) == 0) shape.batch = pick(2, 5);
  shape.seed = random();
  return shape;
}

// Chooses and loads the kernels of many calls at once, as a program with many threads would: compiles overlap.
void prepare_all(const std::vector<TestCall::Shape>& shapes, const Handle& handle, int device) {
  std::atomic<std::size_t> next{0};
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < std::thread::hardware_concurrency(); ++i) {
    threads.emplace_back([&] {
      cuda(cudaSetDevice(device));
      for (std::size_t at = next++; at < shapes.size(); at = next++) {
        if (shapes[at].product.m == 0 || shapes[at].product.n == 0) continue;
        const warpsmith_problem_t problem = TestCall(shapes[at]).problem();
        warpsmith_plan_t plan = nullptr;
        EXPECT_EQ(warpsmith_plan_create(handle.get(), &problem, &plan), WARPSMITH_STATUS_SUCCESS)
            << warpsmith_last_error();
        if (plan != nullptr) warpsmith_plan_destroy(plan);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(LibraryGpu, AnyShapeIsRight) {
  WARPSMITH_NEEDS_GPU();
  const Handle handle;
  const TestStream stream;
  const auto calls = static_cast<std::size_t>(setting("WARPSMITH_ANY_SHAPE_CALLS", 400));
  std::mt19937_64 random(20240517);
  std::vector<TestCall::Shape> shapes;
  while (shapes.size() < calls) shapes.push_back(random_shape(random));
  prepare_all(shapes, handle, 0);
  std::size_t wrong = 0, fallback = 0, trivial = 0;
  for (const TestCall::Shape& shape : shapes) {
    const TestCall call(shape);
    call.fill(stream.get());
    const warpsmith_status_t status = call.run(handle.get(), stream.get());
    const Judged judged = call.judged(stream.get());
    const Product& p = shape.product;
    const bool right = status == WARPSMITH_STATUS_SUCCESS && judged.wrong == 0 && judged.touched == 0;
    if (p.m == 0 || p.n == 0 || p.k == 0 || p.alpha == 0) {
      ++trivial;
    } else if (!call.takes_kernel(handle)) {
      ++fallback;
    }
    if (right) continue;
    ++wrong;
    EXPECT_TRUE(right) << call.describe() << ": status " << status << ", " << judged.wrong << " of " << judged.elements
                       << " wrong, " << judged.touched << " touched; " << handle.explain(call.problem());
  }
  record("any_shape", {{"calls", calls},
                       {"wrong", wrong},
                       {"without_product", trivial},
                       {"fallback_share", static_cast<double>(fallback) / static_cast<double>(calls - trivial)}});
  EXPECT_EQ(wrong, 0U);
}

TEST(LibraryGpu, ProductsWithoutTermsScaleC) {
  WARPSMITH_NEEDS_GPU();
  const Handle handle;
  const TestStream stream;
  for (const bool bf16 : {false, true}) {
    for (const float beta : {0.0F, 1.0F, -1.0F, 0.5F}) {
      for (const std::int64_t k : {0, 64}) {
        TestCall::Shape shape;
        shape.product = packed(33, 65, k, false, false);
        shape.product.bf16 = bf16;
        shape.product.alpha = k == 0 ? 1.0F : 0.0F;
        shape.product.beta = beta;
        run_and_judge(TestCall(shape), handle, stream);
        shape.product.ldc += 3;
        shape.batch = 2;
        run_and_judge(TestCall(shape), handle, stream);
      }
    }
  }
}

TEST(LibraryGpu, NanInCDoesNotLeakThroughBetaZero) {
  WARPSMITH_NEEDS_GPU();
  const Handle handle;
  const TestStream stream;
  for (const bool transpose_b : {false, true}) {
    for (const float alpha : {1.0F, 0.5F}) {
      for (const std::int64_t size : {64, 256, 1000, 1024}) {
        TestCall::Shape shape;
        shape.product = packed(size, size, size, false, transpose_b);
        shape.product.alpha = alpha;
        run_and_judge(TestCall(shape), handle, stream);
      }
    }
  }
}

struct BadCase {
  std::string name;
  warpsmith_status_t expected;
  std::function<warpsmith_status_t()> call;
};

TEST(LibraryGpu, BadInputReturnsItsStatusAndLaunchesNothing) {
  WARPSMITH_NEEDS_GPU();
  const Handle handle;
  const TestStream stream;
  TestCall::Shape shape;
  shape.product = packed(64, 64, 64, false, false);
  const TestCall good(shape);
  good.fill(stream.get());
  const auto gemm = [&](auto change) {
    struct {
      warpsmith_handle_t handle;
      warpsmith_op_t op_a = WARPSMITH_OP_N, op_b = WARPSMITH_OP_N;
      std::int64_t m = 64, n = 64, k = 64, lda = 64, ldb = 64, ldc = 64;
      const void *a, *b;
      void* c;
      warpsmith_type_t type = WARPSMITH_F16;
      warpsmith_compute_t compute = WARPSMITH_COMPUTE_32F;
    } x{.handle = handle.get(), .a = good.a(), .b = good.b(), .c = good.c()};
    change(x);
    return warpsmith_gemm(x.handle, x.op_a, x.op_b, x.m, x.n, x.k, 1, x.a, x.lda, x.b, x.ldb, 0, x.c, x.ldc, x.type,
                          x.compute, stream.get());
  };
  const auto batched = [&](std::int64_t stride_a, std::int64_t stride_c, std::int64_t count) {
    return warpsmith_gemm_strided_batched(handle.get(), WARPSMITH_OP_N, WARPSMITH_OP_N, 64, 64, 64, 1, good.a(), 64,
                                          stride_a, good.b(), 64, 0, 0, good.c(), 64, stride_c, count, WARPSMITH_F16,
                                          WARPSMITH_COMPUTE_32F, stream.get());
  };
  constexpr auto kInvalid = WARPSMITH_STATUS_INVALID_VALUE;
  const auto odd = [](const void* pointer) { return static_cast<const char*>(pointer) + 1; };
  const std::vector<BadCase> cases = {
      {"null handle", WARPSMITH_STATUS_NOT_INITIALIZED, [&] { return gemm([](auto& x) { x.handle = nullptr; }); }},
      {"null a", kInvalid, [&] { return gemm([](auto& x) { x.a = nullptr; }); }},
      {"null b", kInvalid, [&] { return gemm([](auto& x) { x.b = nullptr; }); }},
      {"null c", kInvalid, [&] { return gemm([](auto& x) { x.c = nullptr; }); }},
      {"odd a", kInvalid, [&] { return gemm([&](auto& x) { x.a = odd(x.a); }); }},
      {"odd b", kInvalid, [&] { return gemm([&](auto& x) { x.b = odd(x.b); }); }},
      {"odd c", kInvalid, [&] { return gemm([&](auto& x) { x.c = const_cast<char*>(odd(x.c)); }); }},
      {"negative m", kInvalid, [&] { return gemm([](auto& x) { x.m = -1; }); }},
      {"negative n", kInvalid, [&] { return gemm([](auto& x) { x.n = -1; }); }},
      {"negative k", kInvalid, [&] { return gemm([](auto& x) { x.k = -1; }); }},
      {"lda too small", kInvalid, [&] { return gemm([](auto& x) { x.lda = 63; }); }},
      {"ldb too small", kInvalid, [&] { return gemm([](auto& x) { x.ldb = 63; }); }},
      {"ldc too small", kInvalid, [&] { return gemm([](auto& x) { x.ldc = 63; }); }},
      {"lda zero", kInvalid, [&] { return gemm([](auto& x) { x.lda = 0; }); }},
      {"unknown op", kInvalid, [&] { return gemm([](auto& x) { x.op_a = static_cast<warpsmith_op_t>(2); }); }},
      {"unknown type", kInvalid, [&] { return gemm([](auto& x) { x.type = static_cast<warpsmith_type_t>(9); }); }},
      {"unknown compute", kInvalid,
       [&] { return gemm([](auto& x) { x.compute = static_cast<warpsmith_compute_t>(-3); }); }},
      {"bf16 with 16-bit sums", WARPSMITH_STATUS_NOT_SUPPORTED,
       [&] {
         return gemm([](auto& x) {
           x.type = WARPSMITH_BF16;
           x.compute = WARPSMITH_COMPUTE_16F;
         });
       }},
      {"sizes that overflow", kInvalid, [&] { return gemm([](auto& x) { x.m = x.n = x.ldb = x.ldc = INT64_MAX; }); }},
      {"negative batch count", kInvalid, [&] { return batched(4096, 4096, -1); }},
      {"negative stride", kInvalid, [&] { return batched(-1, 4096, 2); }},
      {"overlapping results", kInvalid, [&] { return batched(4096, 4095, 2); }},
      {"plan of a null problem", kInvalid,
       [&] {
         warpsmith_plan_t plan = nullptr;
         return warpsmith_plan_create(handle.get(), nullptr, &plan);
       }},
      {"explain into null", kInvalid,
       [&] {
         const warpsmith_problem_t problem = good.problem();
         return warpsmith_explain(handle.get(), &problem, nullptr, 100);
       }},
      {"explain into one byte", WARPSMITH_STATUS_BUFFER_TOO_SMALL,
       [&] {
         const warpsmith_problem_t problem = good.problem();
         char byte = 'x';
         const auto status = warpsmith_explain(handle.get(), &problem, &byte, 1);
         EXPECT_EQ(byte, '\0');
         return status;
       }},
      {"no context of the device", WARPSMITH_STATUS_SUCCESS,
       [&] {  // a thread that has not used CUDA yet has device 0
         warpsmith_status_t status = WARPSMITH_STATUS_INTERNAL_ERROR;
         std::thread([&] { status = gemm([](auto&) {}); }).join();
         cuda(cudaStreamSynchronize(stream.get()));
         good.reset(stream.get());
         return status;
       }},
  };
  nlohmann::json evidence = nlohmann::json::array();
  for (const BadCase& bad : cases) {
    const warpsmith_status_t status = bad.call();
    EXPECT_EQ(status, bad.expected) << bad.name << ": " << warpsmith_last_error();
    evidence.push_back({{"case", bad.name}, {"status", warpsmith_status_string(status)}});
  }
  if (device_count() > 1) {
    cuda(cudaSetDevice(1));
    const warpsmith_status_t status = gemm([](auto&) {});
    cuda(cudaSetDevice(0));
    EXPECT_EQ(status, WARPSMITH_STATUS_WRONG_DEVICE);
    evidence.push_back({{"case", "wrong device"}, {"status", warpsmith_status_string(status)}});
  } else {
    evidence.push_back({{"case", "wrong device"}, {"status", "not run: one device"}});
  }
  // C still holds what it held.
  const DeviceMemory differing(sizeof(unsigned long long));
  cuda(cudaMemsetAsync(differing.as<void>(), 0, sizeof(unsigned long long), stream.get()));
  const TestCall untouched(shape);
  untouched.fill(stream.get());
  count_differing(untouched.c_begin(), good.c_begin(), good.c_elements(), differing.as<unsigned long long>(),
                  stream.get());
  unsigned long long changed = 1;
  cuda(cudaMemcpyAsync(&changed, differing.as<void>(), sizeof changed, cudaMemcpyDeviceToHost, stream.get()));
  stream.wait();
  EXPECT_EQ(changed, 0U);
  cuda(cudaGetLastError());
  record("bad_input", evidence);
}

// Calls that have never been made before are captured: choosing and loading must not disturb the capture.
TEST(LibraryGpu, CapturesIntoGraphs) {
  WARPSMITH_NEEDS_GPU();
  const Handle handle;
  const TestStream stream;
  for (const Product& product : {packed(64, 64, 64, false, true), packed(384, 640, 4096, false, true),
                                 packed(2048, 1024, 512, false, false), packed(100, 50, 30, true, false)}) {
    TestCall::Shape shape;
    shape.product = product;
    const TestCall call(shape);
    call.fill(stream.get());
    stream.wait();
    cuda(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeGlobal));
    for (int i = 0; i < 3; ++i) {
      ASSERT_EQ(call.run(handle.get(), stream.get()), WARPSMITH_STATUS_SUCCESS) << warpsmith_last_error();
    }
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    cuda(cudaStreamEndCapture(stream.get(), &graph));
    std::size_t nodes = 0;
    cuda(cudaGraphGetNodes(graph, nullptr, &nodes));
    EXPECT_GE(nodes, 3U) << call.describe();
    cuda(cudaGraphInstantiate(&executable, graph, 0));
    for (int i = 0; i < 5; ++i) {
      call.reset(stream.get());
      cuda(cudaGraphLaunch(executable, stream.get()));
      expect_right(call, stream.get());
    }
    // Eager calls on the same stream do not meet the graph's workspace.
    call.reset(stream.get());
    ASSERT_EQ(call.run(handle.get(), stream.get()), WARPSMITH_STATUS_SUCCESS);
    expect_right(call, stream.get());
    cuda(cudaGraphExecDestroy(executable));
    cuda(cudaGraphDestroy(graph));
  }
}

// Graphs and streams come and go by the hundred; their workspaces do not pile up, and results stay right.
TEST(LibraryGpu, GraphsAndStreamsThatComeAndGoTakeNoMoreMemory) {
  WARPSMITH_NEEDS_GPU();
  const Handle handle;
  // One whose kernel needs a workspace, where there is one.
  TestCall::Shape shape;
  shape.product = packed(384, 640, 4096, false, true);
  for (const Product& product : {packed(128, 256, 16384, false, true), packed(256, 512, 8192, false, true),
                                 packed(1024, 2048, 2048, false, true), packed(64, 4096, 4096, false, true)}) {
    TestCall::Shape other;
    other.product = product;
    if (handle.explain(TestCall(other).problem()).find("streamk=1") != std::string::npos) shape = other;
  }
  const TestCall call(shape);
  std::printf("graphs and streams: %s\n", call.describe().c_str());
  const auto round = [&](bool judged) {
    const TestStream stream;
    call.fill(stream.get());
    ASSERT_EQ(call.run(handle.get(), stream.get()), WARPSMITH_STATUS_SUCCESS) << warpsmith_last_error();
    if (judged) expect_right(call, stream.get());
    stream.wait();
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    cuda(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeGlobal));
    ASSERT_EQ(call.run(handle.get(), stream.get()), WARPSMITH_STATUS_SUCCESS) << warpsmith_last_error();
    cuda(cudaStreamEndCapture(stream.get(), &graph));
    cuda(cudaGraphInstantiate(&executable, graph, 0));
    cuda(cudaGraphDestroy(graph));
    call.reset(stream.get());
    cuda(cudaGraphLaunch(executable, stream.get()));
    if (judged) expect_right(call, stream.get());
    cuda(cudaGraphExecDestroy(executable));  // its work may still be running
  };
  const auto free_bytes = [] {
    std::size_t free = 0, total = 0;
    cuda(cudaDeviceSynchronize());
    cuda(cudaMemGetInfo(&free, &total));
    return static_cast<std::int64_t>(free);
  };
  for (int i = 0; i < 200; ++i) round(i % 50 == 0);  // as many streams as may have workspaces of their own
  const std::int64_t before = free_bytes();
  for (int i = 0; i < 400; ++i) round(i % 50 == 0);
  constexpr std::int64_t kSlack = 128 << 20;
  EXPECT_GT(free_bytes(), before - kSlack);
}

TEST(LibraryGpu, PlansRunWhatTheyWereMadeFor) {
  WARPSMITH_NEEDS_GPU();
  const Handle handle;
  const TestStream stream;
  for (const int offset : {0, 1}) {
    for (const auto& [alpha, beta] : {std::pair{1.0F, 0.0F}, {0.5F, -1.0F}, {0.0F, 0.5F}}) {
      TestCall::Shape shape;
      shape.product = packed(192, 256, 320, false, true);
      shape.product.alpha = alpha;
      shape.product.beta = beta;
      shape.offset_b = offset;
      const TestCall call(shape);
      call.fill(stream.get());
      const Plan plan(handle, call.problem());
      plan.run(call.a(), call.b(), call.c(), stream.get(), alpha, beta);
      expect_right(call, stream.get());
    }
  }
  const warpsmith_problem_t empty{};
  const Plan plan(handle, empty);
  plan.run(nullptr, nullptr, nullptr, stream.get());
}

TEST(LibraryGpu, ExplainIsTrueToTheCall) {
  WARPSMITH_NEEDS_GPU();
  warpsmith_options_t options{};
  options.fallback = WARPSMITH_FALLBACK_NONE;
  const Handle handle(options);
  const TestStream stream;
  for (const Product& product : {packed(64, 64, 64, false, true), packed(1024, 1024, 1024, false, true),
                                 packed(1024, 1024, 1024, false, false), packed(17, 33, 65, true, true)}) {
    TestCall::Shape shape;
    shape.product = product;
    const TestCall call(shape);
    call.fill(stream.get());
    const auto explained = nlohmann::json::parse(handle.explain(call.problem()));
    const warpsmith_status_t status = call.run(handle.get(), stream.get());
    EXPECT_EQ(status, explained["runs"] == "kernel" ? WARPSMITH_STATUS_SUCCESS : WARPSMITH_STATUS_NOT_COVERED)
        << explained.dump(1);
    if (status != WARPSMITH_STATUS_SUCCESS) continue;
    expect_right(call, stream.get());
    EXPECT_NE(nlohmann::json::parse(handle.explain(call.problem()))["kernel"]["cubin"], "missing");
  }
}

TEST(LibraryGpu, WhatWasCompiledOnceIsFoundWithoutACompiler) {
  WARPSMITH_NEEDS_GPU();
  const ScratchFolder folder;
  const std::string cache = folder.path().string();
  TestCall::Shape shape;
  shape.product = packed(64, 64, 64, false, true);
  const TestCall call(shape);
  const TestStream stream;
  warpsmith_options_t options{};
  options.cache_path = cache.c_str();
  options.pack_path = "/nonexistent/none.wspack";
  options.fallback = WARPSMITH_FALLBACK_NONE;
  {
    options.compile = WARPSMITH_COMPILE_NEVER;
    const Handle handle(options);
    call.fill(stream.get());
    EXPECT_EQ(call.run(handle.get(), stream.get()), WARPSMITH_STATUS_NOT_COVERED);
  }
  {
    options.compile = WARPSMITH_COMPILE_WHEN_MISSING;
    const Handle handle(options);
    run_and_judge(call, handle, stream);
  }
  options.compile = WARPSMITH_COMPILE_NEVER;
  const Handle handle(options);
  run_and_judge(call, handle, stream);
}

TEST(LibraryGpu, DamagedFilesAreNamedAndDoneWithout) {
  WARPSMITH_NEEDS_GPU();
  const ScratchFolder folder;
  const std::string wisdom = (folder.path() / "wisdom.jsonl").string(), pack = (folder.path() / "x.wspack").string();
  ASSERT_TRUE(write_file_atomic(wisdom, "{\"warpsmith_wisdom\": 1, \"machine\"\n").ok());
  ASSERT_TRUE(write_file_atomic(pack, "WSPACK\r\nnonsense").ok());
  warpsmith_options_t options{};
  options.wisdom_path = wisdom.c_str();
  options.pack_path = pack.c_str();
  ::testing::internal::CaptureStderr();
  const Handle handle(options);
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find(wisdom), std::string::npos) << said;
  EXPECT_NE(said.find(pack), std::string::npos) << said;
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 2) << said;
  const TestStream stream;
  TestCall::Shape shape;
  shape.product = packed(128, 128, 128, false, true);
  run_and_judge(TestCall(shape), handle, stream);
}

// One thread's share: its own operands, four streams, a few problems in random order, and every so often one result
// that is judged.
struct Tally {
  std::atomic<std::int64_t> calls{0}, errors{0}, wrong{0};
};

void hammer(const Handle& handle, std::uint64_t seed, Clock::time_point end, Tally& tally) {
  cuda(cudaSetDevice(0));
  std::mt19937_64 random(seed);
  const TestStream streams[4];
  std::vector<std::unique_ptr<TestCall>> calls;
  for (const Product& product :
       {packed(64, 64, 64, false, true), packed(256, 128, 2048, false, true), packed(512, 512, 512, false, false),
        packed(1, 4096, 1024, false, true), packed(1024, 256, 4096, false, true), packed(100, 60, 70, true, false)}) {
    TestCall::Shape shape;
    shape.product = product;
    shape.seed = seed + calls.size();
    for (int stream = 0; stream < 4; ++stream) {
      calls.push_back(std::make_unique<TestCall>(shape));
      calls.back()->fill(streams[stream].get());
    }
  }
  while (Clock::now() < end) {
    for (int i = 0; i < 400; ++i) {
      const std::size_t at = random() % calls.size();
      if (calls[at]->run(handle.get(), streams[at % 4].get()) != WARPSMITH_STATUS_SUCCESS) ++tally.errors;
      ++tally.calls;
    }
    const std::size_t at = random() % calls.size();
    const cudaStream_t stream = streams[at % 4].get();
    calls[at]->reset(stream);
    if (calls[at]->run(handle.get(), stream) != WARPSMITH_STATUS_SUCCESS) ++tally.errors;
    ++tally.calls;
    if (calls[at]->judged(stream).wrong > 0) ++tally.wrong;
  }
}

TEST(LibraryGpu, ManyThreadsAndStreams) {
  WARPSMITH_NEEDS_GPU();
  constexpr int kThreads = 16;
  const Handle handle;
  const double seconds = setting("WARPSMITH_THREAD_SECONDS", 10);
  const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  Tally tally;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] { hammer(handle, static_cast<std::uint64_t>(i) * 7919 + 1, end, tally); });
  }
  for (std::thread& thread : threads) thread.join();
  record("threads", {{"threads", kThreads},
                     {"streams", 4 * kThreads},
                     {"seconds", seconds},
                     {"calls", tally.calls.load()},
                     {"errors", tally.errors.load()},
                     {"wrong", tally.wrong.load()}});
  EXPECT_GT(tally.calls.load(), 0);
  EXPECT_EQ(tally.errors.load(), 0);
  EXPECT_EQ(tally.wrong.load(), 0);
}

}  // namespace
}  // namespace warpsmith::library::testing
