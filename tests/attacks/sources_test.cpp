// Without a GPU: every candidate of the suite loads and compiles, or is refused as it must be; sources that attack the
// compiler succeed on the unprotected harness and are stopped here.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <set>

#include "../compile/test_directory.h"
#include "base/file.h"
#include "base/subprocess.h"
#include "cases.h"
#include "catalogue.h"
#include "codegen/descriptor.h"
#include "compile/compile.h"
#include "files.h"
#include "results.h"
#include "unprotected.h"

namespace warpsmith::attacks {

namespace {

namespace fs = std::filesystem;

Machine hopper() {
  Machine machine;
  machine.kind = "cuda";
  machine.compute_capability = 90;
  machine.units = 132;
  machine.smem_bytes_per_block = 227 << 10;
  return machine;
}

Compiler compiler(const TestDirectory& scratch, double timeout_seconds = 60) {
  CompilerOptions options;
  options.cache = scratch.path() / "cache";
  options.timeout_seconds = timeout_seconds;
  options.memory_bytes = 2ULL << 30;
  return Compiler(options);
}

std::set<std::string> stems_in(const fs::path& folder, const std::string& extension) {
  std::set<std::string> stems;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == extension) stems.insert(entry.path().stem().string());
  }
  return stems;
}

Result<Artifact> load_and_compile(const fs::path& source, const std::string& sizes, const Compiler& compiler) {
  const Result<FreeForm> form = load_candidate(source);
  if (!form) return form.error();
  const Result<Candidate> candidate = instantiate(*form, parse_problem(sizes + " nn").value(), hopper());
  if (!candidate) return candidate.error();
  return compiler.compile(*candidate);
}

// No file of the folders is left out of the catalogue, and none is missing.
TEST(AttackCatalogue, ListsEveryFile) {
  std::set<std::string> device, host, honest_device, honest_host;
  for (const auto* table : {&device_attacks(), &source_attacks()}) {
    for (const Attack& attack : *table) EXPECT_TRUE(device.insert(attack.name).second) << attack.name << " twice";
  }
  for (const Attack& attack : host_attacks()) EXPECT_TRUE(host.insert(attack.name).second) << attack.name << " twice";
  for (const Honest& honest : honest_device_candidates()) honest_device.insert(honest.name);
  for (const Honest& honest : honest_host_candidates()) host.insert(honest.name);
  EXPECT_EQ(stems_in(attacks_dir() / "device", ".cu"), device);
  EXPECT_EQ(stems_in(attacks_dir() / "device", ".json"), device);
  EXPECT_EQ(stems_in(attacks_dir() / "honest", ".cu"), honest_device);
  EXPECT_EQ(stems_in(attacks_dir() / "host", ".so"), host);
}

class DeviceSources : public testing::TestWithParam<Attack> {};

TEST_P(DeviceSources, CompileOrAreRefusedAsExpected) {
  const TestDirectory scratch;
  const Result<Artifact> artifact =
      load_and_compile(device_source(GetParam().name), GetParam().sizes, compiler(scratch));
  const auto& expected = GetParam().caught_by;
  if (std::find(expected.begin(), expected.end(), "compile") != expected.end()) {
    ASSERT_FALSE(artifact.ok());
    EXPECT_EQ(artifact.error().kind, ErrorKind::failed) << artifact.error().message;
  } else {
    EXPECT_TRUE(artifact.ok()) << artifact.error().message;
  }
}

INSTANTIATE_TEST_SUITE_P(Catalogue, DeviceSources, testing::ValuesIn(device_attacks()), CaseName());

TEST(HonestSources, Compile) {
  const TestDirectory scratch;
  for (const Honest& honest : honest_device_candidates()) {
    for (const std::string& problem : honest.problems) {
      const std::string sizes = problem.substr(0, problem.find(' '));
      const Result<Artifact> artifact = load_and_compile(honest_source(honest.name), sizes, compiler(scratch));
      EXPECT_TRUE(artifact.ok()) << honest.name << " " << problem << ": " << artifact.error().message;
    }
  }
}

// The compiler's own attacks, both halves.
class SourceAttacks : public testing::TestWithParam<Attack> {};

TEST_P(SourceAttacks, SucceedUnprotectedAndAreStoppedHere) {
  const Attack& attack = GetParam();
  const TestDirectory scratch;
  const fs::path source = device_source(attack.name);
  const Effect effect = Unprotected(scratch.path()).attack_compiler(attack, source);
  EXPECT_TRUE(effect.succeeded) << "on the unprotected harness: " << effect.how;

  const auto start = std::chrono::steady_clock::now();
  const Result<Artifact> artifact = load_and_compile(source, "256x256x256", compiler(scratch, 3));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  ASSERT_FALSE(artifact.ok());
  const std::string& message = artifact.error().message;
  EXPECT_EQ(artifact.error().kind, ErrorKind::failed) << message;
  EXPECT_EQ(message.find("root:"), std::string::npos) << message;
  EXPECT_LT(took.count(), 20);
  record({{"name", attack.name},
          {"kind", "source"},
          {"succeeds_unprotected", effect.succeeded},
          {"how_unprotected", effect.how},
          {"caught", true},
          {"how", "compile: " + message.substr(0, 300)},
          {"seconds", took.count()}});
}

INSTANTIATE_TEST_SUITE_P(Catalogue, SourceAttacks, testing::ValuesIn(source_attacks()), CaseName());

// C++ sources for the CPU target: a plain compile takes the file in, ours refuses.
class CpuSources : public testing::TestWithParam<std::string> {};

TEST_P(CpuSources, ReadFilesUnprotectedAndAreRefusedHere) {
  const TestDirectory scratch;
  const fs::path source = cpu_source(GetParam()), object = scratch.path() / "kernel.so";
  ProcessRequest request;
  request.argv = {"c++", "-shared", "-fPIC", "-o", object.string(), source.string()};
  request.limits.wall_seconds = 60;
  const Result<ProcessOutput> output = run_process(request);
  ASSERT_TRUE(output.ok());
  const std::string told = output->err + (fs::exists(object) ? read_file(object).value() : "");
  const bool succeeds = told.find("root:") != std::string::npos;
  EXPECT_TRUE(succeeds) << output->err.substr(0, 500);

  Candidate candidate;
  candidate.language = Language::cpp;
  candidate.arch = "x86-64-v3";
  candidate.source = read_file(source).value();
  const Result<Artifact> artifact = compiler(scratch).compile(candidate);
  ASSERT_FALSE(artifact.ok());
  EXPECT_NE(artifact.error().message.find("is not accepted"), std::string::npos) << artifact.error().message;
  record({{"name", "cpu_" + GetParam()},
          {"kind", "source"},
          {"succeeds_unprotected", succeeds},
          {"how_unprotected", "the compiler's log or the object holds \"root:\""},
          {"caught", true},
          {"how", "compile: " + artifact.error().message}});
}

INSTANTIATE_TEST_SUITE_P(Catalogue, CpuSources, testing::Values("include_file", "incbin", "macro_include"), CaseName());

}  // namespace
}  // namespace warpsmith::attacks
