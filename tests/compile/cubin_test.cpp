// Real cubins made by NVRTC, and damaged ones: what is found in them, and what is refused.
#include "compile/cubin.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "base/file.h"
#include "candidates.h"
#include "compile/compile.h"
#include "test_directory.h"

namespace warpsmith {
namespace {

const char* kVariables = R"(
__device__ int counter;
__device__ float table[1000] = {1.5f};
static __device__ short hidden;
__constant__ int fixed_table[4];
namespace { __device__ char unnamed; }
template <class T> __device__ T generic;
extern "C" __global__ void first(int* p, int i) {
  static int local;
  __shared__ int tile[10];
  counter++; table[i] += 1; hidden++; unnamed++; local++; generic<double> += 1;
  tile[i] = i;
  __syncthreads();
  p[i] = hidden + unnamed + local + fixed_table[i] + tile[i ^ 1];
}
extern "C" __global__ void second(int* p) { p[0] = counter; }
)";

class Cubin : public testing::Test {
 protected:
  Cubin() {
    options_.cache = scratch_.path() / "cache";
    options_.nvrtc_helper = WARPSMITH_NVRTC_HELPER;
  }

  Result<Artifact> compile(const std::string& source) const {
    return Compiler(options_).compile(cuda_candidate(source));
  }
  std::string bytes(const std::string& source) const {
    const Result<Artifact> made = compile(source);
    EXPECT_TRUE(made.ok()) << made.error().message;
    return made.ok() ? read_file(made->binary).value() : std::string();
  }
  std::string refusal(const std::string& source) const {
    const Result<Artifact> made = compile(source);
    if (made.ok()) return "accepted";
    EXPECT_EQ(made.error().kind, ErrorKind::failed);
    return made.error().message;
  }

  TestDirectory scratch_;
  CompilerOptions options_;
};

const CubinVariable* find(const CubinFacts& facts, std::string_view part) {
  const auto found = std::find_if(facts.variables.begin(), facts.variables.end(), [&](const CubinVariable& variable) {
    return variable.name.find(part) != std::string::npos;
  });
  return found == facts.variables.end() ? nullptr : &*found;
}

TEST_F(Cubin, ListsEntriesAndEveryVariable) {
  const Result<CubinFacts> facts = read_cubin(bytes(kVariables));
  ASSERT_TRUE(facts.ok()) << facts.error().message;
  std::vector<std::string> entries = facts->entries;
  std::sort(entries.begin(), entries.end());
  EXPECT_EQ(entries, (std::vector<std::string>{"first", "second"}));
  EXPECT_TRUE(facts->externals.empty());
  const std::vector<std::pair<const char*, std::uint64_t>> expected = {
      {"counter", 4}, {"table", 4000}, {"hidden", 2}, {"fixed_table", 16},
      {"unnamed", 1}, {"local", 4},    {"generic", 8}};
  for (const auto& [name, size] : expected) {
    const CubinVariable* variable = find(*facts, name);
    ASSERT_NE(variable, nullptr) << name;
    EXPECT_FALSE(variable->managed);
  }
  EXPECT_EQ(facts->variables.size(), expected.size());
  EXPECT_EQ(facts->variable_bytes(), 4 + 4000 + 2 + 16 + 1 + 4 + 8u);
  EXPECT_TRUE(find(*facts, "fixed_table")->constant);
  EXPECT_FALSE(find(*facts, "counter")->constant);
}

TEST_F(Cubin, SharedMemoryIsNoVariable) {
  const Result<CubinFacts> facts = read_cubin(bytes(
      "extern \"C\" __global__ void f(int* p) { __shared__ int s[64]; s[p[0]] = 1; __syncthreads(); p[1] = s[0]; }"));
  ASSERT_TRUE(facts.ok());
  EXPECT_TRUE(facts->variables.empty());
}

TEST_F(Cubin, RefusesFunctionsOfTheDriver) {
  const auto body = [&](const std::string& text) {
    return refusal("extern \"C\" __global__ void f(int* p) { " + text + " }");
  };
  EXPECT_EQ(body("printf(\"flood %d\", p[0]);"),
            "the code calls vprintf, which is not accepted: device printf writes to the host's output");
  EXPECT_NE(body("p[0] = malloc(64) != nullptr;").find("the device heap keeps its contents"), std::string::npos);
  EXPECT_NE(body("free(p);").find("the device heap keeps its contents"), std::string::npos);
  EXPECT_NE(body("int* q = new int[4]; q[0] = 1; p[0] = q[p[1]]; ").find("the device heap"), std::string::npos);
  EXPECT_NE(body("if (p[0]) __assertfail(\"a\", \"b\", 1, \"c\", 1);").find("device assert"), std::string::npos);
  EXPECT_EQ(body("if (p[0]) __trap();"), "accepted");
  EXPECT_EQ(body("p[0] = clock64(); __nanosleep(10);"), "accepted");
  EXPECT_NE(refusal("extern \"C\" __device__ int vprintf(const char*, void*);\n"
                    "extern \"C\" __global__ void f(int* p) { p[0] = vprintf(\"x\", p); }")
                .find("device printf"),
            std::string::npos);
}

TEST_F(Cubin, RefusesLaunchesFromTheDevice) {
  const std::string launch = refusal(
      "__global__ void child(int* p) { p[0] = 1; }\n"
      "extern \"C\" __global__ void f(int* p) { child<<<1, 1>>>(p); }");
  EXPECT_NE(launch.find("a candidate may not launch kernels from the device"), std::string::npos) << launch;
  const std::string direct = refusal(
      "extern \"C\" __device__ int cudaLaunchDeviceV2(void*, void*);\n"
      "extern \"C\" __global__ void f(int* p) { p[0] = cudaLaunchDeviceV2(p, p); }");
  EXPECT_NE(direct.find("a candidate may not launch kernels from the device"), std::string::npos) << direct;
}

TEST_F(Cubin, RefusesManagedAndHugeVariables) {
  EXPECT_NE(refusal("__managed__ int shared_with_host;\n"
                    "extern \"C\" __global__ void f(int* p) { p[0] = shared_with_host++; }")
                .find("shared_with_host is a managed variable"),
            std::string::npos);
  EXPECT_NE(refusal("__device__ char huge[100 << 20];\nextern \"C\" __global__ void f(int* p) { huge[p[0]]++; }")
                .find("1 device variables of 104857600 bytes; at most 4096 of 64 MiB"),
            std::string::npos);
  EXPECT_EQ(refusal("__device__ char big[60 << 20];\nextern \"C\" __global__ void f(int* p) { big[p[0]]++; }"),
            "accepted");
}

TEST_F(Cubin, RefusesHugeCode) {
  EXPECT_NE(refusal("__device__ int image[12 << 20] = {1};\nextern \"C\" __global__ void f(int* p) { image[p[0]]++; }")
                .find("exceeded 32 MiB"),
            std::string::npos);
}

TEST(CubinReader, RefusesWhatIsNoCubin) {
  EXPECT_FALSE(read_cubin("").ok());
  EXPECT_FALSE(read_cubin("\x7f"
                          "ELF")
                   .ok());
  EXPECT_FALSE(read_cubin(std::string(1000, '\0')).ok());
  EXPECT_FALSE(read_cubin(read_file("/proc/self/exe").value()).ok());
  EXPECT_FALSE(check_cubin(std::string(kLargestCubin + 1, '\0')).ok());
}

// Cut or damaged tables are refused or read, never followed out of the file; the sanitizer build watches.
TEST_F(Cubin, SurvivesDamage) {
  const std::string whole = bytes(kVariables);
  for (std::size_t size = 0; size < whole.size(); size += 7) static_cast<void>(read_cubin(whole.substr(0, size)).ok());
  std::mt19937_64 random(5);
  int refused = 0;
  for (int i = 0; i < 5000; ++i) {
    std::string damaged = whole;
    for (int edit = 0; edit < 16; ++edit) damaged[random() % damaged.size()] = static_cast<char>(random());
    // The header and the section table, where offsets live, more often than chance has it.
    damaged[random() % 64] = static_cast<char>(random());
    if (!read_cubin(damaged).ok()) ++refused;
  }
  EXPECT_GT(refused, 500);
}

}  // namespace
}  // namespace warpsmith
