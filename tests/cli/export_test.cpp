// `warpsmith export` as a user meets it: bad input, kernels from wisdom and from an archive, all of the papers' grid.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/subprocess.h"
#include "problem/grids.h"
#include "problem/problem.h"
#include "temporary_directory.h"

namespace warpsmith {
namespace {

class Export : public TemporaryDirectory {
 protected:
  ProcessOutput run(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {WARPSMITH_CLI, "export"});
    ProcessRequest request;
    request.argv = std::move(arguments);
    request.environment = {{"WARPSMITH_DATA", (home_ / "data").string()}};
    request.limits.wall_seconds = 120;
    const auto output = run_process(request);
    EXPECT_TRUE(output.ok()) << output.error().message;
    return *output;
  }

  void expect_refused(const std::vector<std::string>& arguments, int code, const std::string& part) const {
    const ProcessOutput output = run(arguments);
    EXPECT_EQ(output.status.exit_code, code) << output.err;
    EXPECT_NE(output.err.find(part), std::string::npos) << output.err;
    EXPECT_EQ(std::count(output.err.begin(), output.err.end(), '\n'), 1) << output.err;
  }

  static nlohmann::json entry(const std::string& problem, const std::string& recipe) {
    return {{"problem", problem},
            {"recipe", recipe},
            {"source_hash", "0123"},
            {"cold_us", 2.3125},
            {"warm_us", 1.875},
            {"pdl_us", 1.5},
            {"pdl_recipe", recipe + " pdl=1"},
            {"baseline", "cublaslt-auto-nn"},
            {"baseline_us", 2.96},
            {"baseline_warm_us", 2.27},
            {"gates_passed", 19},
            {"date", "2026-01-02T03:04:05Z"},
            {"commit", "abcdef0"},
            {"provenance", {{"driver", "580.1"}}}};
  }

  std::string wisdom(const std::vector<nlohmann::json>& entries, const std::string& target = "sm90") const {
    nlohmann::json header = {{"warpsmith_wisdom", 1},
                             {"machine", "NVIDIA H200"},
                             {"compute_capability", 90},
                             {"units", 132},
                             {"target", target},
                             {"threads", 1},
                             {"versions", nlohmann::json::object()}};
    std::string text = header.dump() + "\n";
    for (const nlohmann::json& each : entries) text += each.dump() + "\n";
    const std::filesystem::path path = home_ / (target + ".jsonl");
    EXPECT_TRUE(write_file_atomic(path, text).ok());
    return path.string();
  }

  std::string directory() const { return (home_ / "out").string(); }
};

const char* const kTiny = "tiny tile=16x32x16 warps=1x1x4";

TEST_F(Export, RefusesBadInput) {
  const std::string path = wisdom({entry("64x64x64 nn", kTiny)});
  expect_refused({}, 2, "nothing to export; accepted: M N K");
  expect_refused({"64", "64", "64", "--grid", "cuda-l2"}, 2, "give one of");
  expect_refused({"--grid", "other", "--wisdom", path}, 2, "accepted: cuda-l2");
  expect_refused({"64", "64", "64", "--wisdom", "/nonexistent/w.jsonl"}, 3, "/nonexistent/w.jsonl");
  expect_refused({"64", "64", "64", "--archive", "/nonexistent/a.sqlite"}, 2, "there is no archive");
  expect_refused({"64", "64", "64", "--wisdom", path, "--pdl", "--candidate"}, 2, "exclude one another");
  expect_refused({"64", "64", "64", "--wisdom", wisdom({}, "cpu")}, 2, "accepted: wisdom of a CUDA device");
  expect_refused({"64", "64", "128", "--wisdom", path, "--output", directory()}, 1,
                 "no kernel of 64x64x128 nn f16 f32");
  expect_refused({"64", "64", "64", "--output", directory()}, 1, "no kernel of 64x64x64 nn f16 f32 in the archive");
}

TEST_F(Export, WritesOneKernelWithWhatWasMeasured) {
  const std::string path = wisdom({entry("64x64x64 nn", kTiny)});
  const ProcessOutput output = run({"64", "64", "64", "--wisdom", path, "--output", directory()});
  ASSERT_EQ(output.status.exit_code, 0) << output.err;
  const std::string file = directory() + "/warpsmith_hgemm_64x64x64_nn.cu";
  EXPECT_EQ(output.out, file + "\n");
  const auto source = read_file(file);
  ASSERT_TRUE(source.ok());
  for (const char* text :
       {"// C[64,64] = A[64,64] * B[64,64]; f16 elements",
        "// Measured     2.312 us, operands out of the caches, 1.875 us",
        "// Baseline     cublaslt-auto-nn, the fastest library call of this layout: 2.96 us, 2.27 us; speed-up 1.280",
        "// Gates        19 passed", "// Device       NVIDIA H200",
        "// Of           2026-01-02T03:04:05Z, driver 580.1, commit abcdef0", "// Recipe       tiny tile=16x32x16",
        "// Note         the building blocks have changed since: what was measured is 0123"}) {
    EXPECT_NE(source->find(text), std::string::npos) << text << "\n" << source->substr(0, 2000);
  }
  EXPECT_EQ(source->find("cudaLaunchAttributeProgrammaticStreamSerialization;"), std::string::npos);
}

TEST_F(Export, WritesTheDependentLaunchWhenAsked) {
  const std::string path = wisdom({entry("64x64x64 nn", kTiny)});
  ASSERT_EQ(run({"--wisdom", path, "--pdl", "--output", directory()}).status.exit_code, 0);
  const auto source = read_file(directory() + "/warpsmith_hgemm_64x64x64_nn.cu");
  ASSERT_TRUE(source.ok());
  EXPECT_NE(source->find("// Measured     1.5 us with programmatic dependent launch"), std::string::npos);
  EXPECT_NE(source->find("cudaLaunchAttributeProgrammaticStreamSerialization;"), std::string::npos);
}

TEST_F(Export, WritesACandidateThatBenchTakes) {
  const std::string path = wisdom({entry("64x64x64 nn", kTiny)});
  ASSERT_EQ(run({"--wisdom", path, "--candidate", "--output", directory()}).status.exit_code, 0);
  EXPECT_TRUE(std::filesystem::exists(directory() + "/64x64x64-nn-f16-f32-sm90.cu"));
  const auto descriptor = read_file(directory() + "/64x64x64-nn-f16-f32-sm90.json");
  ASSERT_TRUE(descriptor.ok());
  EXPECT_TRUE(nlohmann::json::parse(*descriptor).contains("kernels"));
}

// One recipe a shape; what is written is asked for, not what is measured.
TEST_F(Export, WritesTheWholeGrid) {
  std::vector<nlohmann::json> entries;
  const std::vector<Shape> shapes = named_grid("cuda-l2").value();
  for (const Shape& shape : shapes) {
    const Problem problem{.m = shape.m, .n = shape.n, .k = shape.k, .layout = Layout::tn};
    entries.push_back(entry(to_string(problem), "sm90 tile=128x128x64 stages=4 consumers=2"));
  }
  const std::string missing = entries.back()["problem"];
  entries.pop_back();
  const std::string path = wisdom(entries);
  const ProcessOutput output =
      run({"--grid", "cuda-l2", "--layout", "tn", "--wisdom", path, "--output", directory(), "--json"});
  EXPECT_EQ(output.status.exit_code, 1);
  EXPECT_NE(output.err.find("no kernel of " + missing), std::string::npos) << output.err;
  const nlohmann::json result = nlohmann::json::parse(output.out);
  EXPECT_EQ(result["written"].size(), 999u);
  EXPECT_EQ(result["missing"], nlohmann::json::array({missing}));
  for (const std::string file : result["written"]) EXPECT_GT(std::filesystem::file_size(file), 10'000u) << file;
  const auto header = read_file(directory() + "/warpsmith_kernels.h");
  ASSERT_TRUE(header.ok());
  EXPECT_NE(header->find("warpsmith_hgemm_16384x16384x12288_tn("), std::string::npos);
}

}  // namespace
}  // namespace warpsmith
