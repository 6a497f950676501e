// NVRTC through its helper process: needs the CUDA toolkit, no GPU.
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>

#include "base/file.h"
#include "base/subprocess.h"
#include "candidates.h"
#include "compile/compile.h"
#include "test_directory.h"

namespace warpsmith {
namespace {

class Nvrtc : public testing::Test {
 protected:
  Nvrtc() {
    options_.cache = scratch_.path() / "cache";
    options_.nvrtc_helper = WARPSMITH_NVRTC_HELPER;
  }

  TestDirectory scratch_;
  CompilerOptions options_;
};

namespace fs = std::filesystem;

const char* kClean =
    "extern \"C\" __global__ void clean(float* p) {\n"
    "  __shared__ float s[64];\n"
    "  s[threadIdx.x] = p[threadIdx.x];\n"
    "  __syncthreads();\n"
    "  p[threadIdx.x] = s[63 - threadIdx.x];\n"
    "}\n";

// 64 live values under a cap of 32 registers.
const char* kSpilling =
    "extern \"C\" __global__ void __launch_bounds__(1024, 2) spilling(float* p) {\n"
    "  float a[64];\n"
    "#pragma unroll\n"
    "  for (int i = 0; i < 64; ++i) a[i] = p[i * 1024 + threadIdx.x];\n"
    "  __syncthreads();\n"
    "#pragma unroll\n"
    "  for (int i = 0; i < 64; ++i) p[i * 1024 + threadIdx.x] = a[i] * a[(i * 7 + 3) % 64];\n"
    "}\n";

TEST_F(Nvrtc, CompilesForEveryArchitecture) {
  for (const char* arch : {"sm_80", "sm_90a"}) {
    const Result<Artifact> made = Compiler(options_).compile(cuda_candidate(kClean, arch));
    ASSERT_TRUE(made.ok()) << made.error().message;
    EXPECT_EQ(read_file(made->binary)->substr(1, 3), "ELF");
  }
}

TEST_F(Nvrtc, ReportsResources) {
  const Compiler compiler(options_);
  const Result<Artifact> clean = compiler.compile(cuda_candidate(kClean));
  ASSERT_TRUE(clean.ok()) << clean.error().message;
  EXPECT_GT(clean->resources.registers, 0);
  EXPECT_EQ(clean->resources.spill_store_bytes, 0);
  EXPECT_EQ(clean->resources.stack_bytes, 0);
  EXPECT_EQ(clean->resources.static_smem_bytes, 256);
  EXPECT_TRUE(clean->resources.clean());
  const Result<Artifact> spilling = compiler.compile(cuda_candidate(kSpilling));
  ASSERT_TRUE(spilling.ok()) << spilling.error().message;
  EXPECT_EQ(spilling->resources.registers, 32);
  EXPECT_GT(spilling->resources.spill_store_bytes, 0);
  EXPECT_FALSE(spilling->resources.clean());
  EXPECT_FALSE(spilling->resources.warnings.empty());
  const Result<Artifact> hit = compiler.compile(cuda_candidate(kSpilling));
  ASSERT_TRUE(hit.ok() && hit->from_cache);
  EXPECT_EQ(hit->resources.spill_store_bytes, spilling->resources.spill_store_bytes);
}

// An accumulator that is touched between two asynchronous MMAs makes ptxas serialise them.
TEST_F(Nvrtc, NoticesSerializedWgmma) {
  const char* source =
      "extern \"C\" __global__ void __launch_bounds__(128) serial(float* p, unsigned long long a, unsigned long long "
      "b) {\n"
      "  float d[4] = {0, 0, 0, 0};\n"
      "  asm volatile(\"wgmma.fence.sync.aligned;\" ::: \"memory\");\n"
      "  for (int i = 0; i < 4; ++i) {\n"
      "    asm volatile(\"wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, "
      "0;\"\n"
      "                 : \"+f\"(d[0]), \"+f\"(d[1]), \"+f\"(d[2]), \"+f\"(d[3]) : \"l\"(a), \"l\"(b));\n"
      "    d[0] += p[i];\n"
      "  }\n"
      "  asm volatile(\"wgmma.commit_group.sync.aligned;\\nwgmma.wait_group.sync.aligned 0;\" ::: \"memory\");\n"
      "  p[threadIdx.x] = d[0] + d[1] + d[2] + d[3];\n"
      "}\n";
  const Result<Artifact> made = Compiler(options_).compile(cuda_candidate(source));
  ASSERT_TRUE(made.ok()) << made.error().message;
  EXPECT_TRUE(made->resources.wgmma_serialized) << made->log;
  EXPECT_FALSE(made->resources.clean());
}

TEST_F(Nvrtc, ErrorsAreTheCompilersOwnWords) {
  const Result<Artifact> made = Compiler(options_).compile(cuda_candidate("__global__ void f() { undeclared(); }\n"));
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().kind, ErrorKind::failed);
  EXPECT_NE(made.error().message.find("undeclared"), std::string::npos) << made.error().message;
}

TEST_F(Nvrtc, FilesAreNotRead) {
  const fs::path secret = scratch_.path() / "secret.h";
  std::ofstream(secret) << "int top_secret_word;\n#error top_secret_word\n";
  const std::string path = secret.string();
  for (const std::string& source :
       {"#include \"" + path + "\"\n", "#if __has_include(\"" + path + "\")\n#error present\n#endif\n",
        "#embed \"" + path + "\"\n", "%:include \"" + path + "\"\n", std::string("#include <cuda_fp16.h>\n")}) {
    const Result<Artifact> made = Compiler(options_).compile(cuda_candidate(source));
    ASSERT_FALSE(made.ok()) << source;
    EXPECT_EQ(made.error().kind, ErrorKind::failed);
    EXPECT_EQ(made.error().message.find("top_secret_word"), std::string::npos) << made.error().message;
    EXPECT_NE(made.error().message.find("is not accepted"), std::string::npos) << made.error().message;
  }
}

// WARPSMITH_HEADERS: what the user has named can be included, and nothing else.
TEST_F(Nvrtc, ReadsHeadersOfDirectoriesThatTheUserNames) {
  const fs::path directory = scratch_.path() / "headers";
  fs::create_directories(directory / "mine");
  const auto write = [&](const char* name, const std::string& text) {
    std::ofstream(directory / "mine" / name) << text;
  };
  write("scale.h", "#pragma once\n#include \"factor.h\"\n__device__ float scale(float x) { return x * kFactor; }\n");
  write("factor.h", "constexpr float kFactor = 3;\n");
  std::ofstream(scratch_.path() / "secret.h") << "#error top_secret_word\n";
  const std::string use = "extern \"C\" __global__ void f(float* p) { p[0] = scale(p[0]); }\n";
  const Candidate candidate = cuda_candidate("#include <mine/scale.h>\n" + use);
  EXPECT_FALSE(Compiler(options_).compile(candidate).ok()) << "nobody has named the directory";
  setenv("WARPSMITH_HEADERS", ("/nonexistent:" + directory.string()).c_str(), 1);
  const Result<Artifact> missing = Compiler(options_).compile(candidate);
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().kind, ErrorKind::environment) << missing.error().message;
  setenv("WARPSMITH_HEADERS", directory.c_str(), 1);
  const Result<Artifact> first = Compiler(options_).compile(candidate);
  const Result<Artifact> again = Compiler(options_).compile(candidate);
  write("factor.h", "constexpr float kFactor = 300;\n");
  const Result<Artifact> changed = Compiler(options_).compile(candidate);
  for (const char* source : {"#include \"mine/scale.h\"\n", "#include <../secret.h>\n",
                             "#include <mine/../../secret.h>\n", "#include </etc/passwd>\n"}) {
    const Result<Artifact> made = Compiler(options_).compile(cuda_candidate(source + use));
    ASSERT_FALSE(made.ok()) << source;
    EXPECT_NE(made.error().message.find("is not accepted"), std::string::npos) << made.error().message;
    EXPECT_EQ(made.error().message.find("top_secret_word"), std::string::npos) << made.error().message;
  }
  const Result<Artifact> absent = Compiler(options_).compile(cuda_candidate("#include <cuda_fp16.h>\n" + use));
  unsetenv("WARPSMITH_HEADERS");
  ASSERT_TRUE(first.ok()) << first.error().message;
  ASSERT_TRUE(again.ok() && changed.ok());
  EXPECT_FALSE(first->from_cache);
  EXPECT_TRUE(again->from_cache);
  EXPECT_FALSE(changed->from_cache) << "a header has changed";
  EXPECT_NE(first->key, changed->key);
  ASSERT_FALSE(absent.ok());
  EXPECT_EQ(absent.error().kind, ErrorKind::failed) << absent.error().message;
}

// The helper refuses by itself, too: it trusts nobody's earlier check.
TEST_F(Nvrtc, TheHelperGuardsItself) {
  ProcessRequest request;
  request.argv = {WARPSMITH_NVRTC_HELPER, "--output", (scratch_.path() / "out.cubin").string()};
  request.stdin_text = "{\"options\": [\"--gpu-architecture=sm_90a\"]}\n#include \"/etc/passwd\"\n";
  const Result<ProcessOutput> output = run_process(request);
  ASSERT_TRUE(output.ok());
  EXPECT_NE(output->out.find("is not accepted"), std::string::npos) << output->out;
  EXPECT_EQ(output->out.find("root:"), std::string::npos);
}

TEST_F(Nvrtc, ATemplateBombIsStopped) {
  options_.timeout_seconds = 2;
  options_.memory_bytes = 2ULL << 30;
  const auto start = std::chrono::steady_clock::now();
  const Result<Artifact> made = Compiler(options_).compile(cuda_candidate(kTemplateBomb));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().kind, ErrorKind::failed) << made.error().message;
  EXPECT_LT(took.count(), 20);
}

// Each stops at a limit of the compiler itself or of its process, and the error says which.
TEST_F(Nvrtc, BombsAreStopped) {
  options_.timeout_seconds = 4;
  options_.memory_bytes = 3ULL << 30;
  std::string macros = "#define A0 x += x;\n";
  for (int i = 1; i <= 8; ++i) {
    const std::string inner = "A" + std::to_string(i - 1) + " ";
    macros += "#define A" + std::to_string(i) + " ";
    for (int copy = 0; copy < 10; ++copy) macros += inner;
    macros += "\n";
  }
  std::string line;
  for (int i = 0; i < 20000; ++i) line += "add.u32 %0, %0, 1;";
  const std::vector<std::pair<const char*, std::string>> bombs = {
      {"macros", macros + "extern \"C\" __global__ void f(volatile int* p) { int x = p[0]; A8 p[0] = x; }"},
      {"constexpr",
       "constexpr long spin(long n) { long s = 0; for (long i = 0; i < n; ++i) s += i; return s; }\n"
       "extern \"C\" __global__ void f(long* p) { constexpr long v = spin(1L << 40); p[0] = v; }"},
      {"recursion",
       "template <int n> struct Deep { static constexpr int value = Deep<n - 1>::value + 1; };\n"
       "extern \"C\" __global__ void f(int* p) { p[0] = Deep<1 << 30>::value; }"},
      {"100 MB of PTX",
       "#define B0 \"" + line +
           "\"\n#define B1 B0 B0 B0 B0 B0 B0 B0 B0\n#define B2 B1 B1 B1 B1 B1 B1 B1 B1\n"
           "extern \"C\" __global__ void f(int* p) { int x = p[0]; asm volatile(B2 B2 B2 B2 : \"+r\"(x)); p[0] = x; }"},
      {"source", std::string(8 << 20, ' ')}};
  for (const auto& [name, source] : bombs) {
    const auto start = std::chrono::steady_clock::now();
    const Result<Artifact> made = Compiler(options_).compile(cuda_candidate(source));
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    ASSERT_FALSE(made.ok()) << name;
    EXPECT_EQ(made.error().kind, ErrorKind::failed) << name << ": " << made.error().message;
    EXPECT_LE(made.error().message.size(), 5000u) << name;
    EXPECT_LT(took.count(), 20) << name;
  }
}

// What a candidate may spell in inline PTX does not make ptxas open files.
TEST_F(Nvrtc, PtxReadsNoFiles) {
  const fs::path secret = scratch_.path() / "secret.h";
  std::ofstream(secret) << "top_secret_word\n";
  const std::string quoted = "\\\"" + secret.string() + "\\\"";
  for (const std::string& directive : {std::string("\\x23include "), std::string("#include "), std::string(".include "),
                                       std::string(".file 9 "), std::string(".\" SPELL(inc) \"\\x62in ")}) {
    const Result<Artifact> made = Compiler(options_).compile(
        cuda_candidate("#define SPELL(x) #x\nextern \"C\" __global__ void f(int* p) { asm volatile(\"\\n" + directive +
                       quoted + "\\n\"); p[0] = 1; }"));
    ASSERT_FALSE(made.ok()) << directive;
    EXPECT_EQ(made.error().message.find("top_secret_word"), std::string::npos) << made.error().message;
    EXPECT_NE(made.error().message.find("Parsing error"), std::string::npos) << made.error().message;
  }
}

TEST_F(Nvrtc, BytesThatAreNotUtf8SurviveTheReport) {
  const Result<Artifact> made = Compiler(options_).compile(cuda_candidate("int a = \"\xff\xfe\";\n"));
  ASSERT_FALSE(made.ok());
  EXPECT_NE(made.error().message.find("error"), std::string::npos) << made.error().message;
}

TEST_F(Nvrtc, AMissingHelperSaysWhatToDo) {
  options_.nvrtc_helper = "/nowhere/warpsmith-nvrtc";
  const Result<Artifact> made = Compiler(options_).compile(cuda_candidate(kClean));
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().kind, ErrorKind::environment);
  EXPECT_NE(made.error().message.find("CUDA toolkit"), std::string::npos);
}

}  // namespace
}  // namespace warpsmith
