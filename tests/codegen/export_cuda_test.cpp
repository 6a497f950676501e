// Exported kernels as text: what they compute, how they are launched, what their comments say; and that nvcc compiles
// one of each family together with its self-check.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/subprocess.h"
#include "codegen/export_cuda.h"

namespace warpsmith {
namespace {

Machine hopper() {
  Machine machine;
  machine.name = "NVIDIA H200";
  machine.kind = "cuda";
  machine.compute_capability = 90;
  machine.units = 132;
  machine.smem_bytes_per_block = 232448;
  machine.registers_per_unit = 65536;
  return machine;
}

Candidate candidate_of(const std::string& recipe, const std::string& problem) {
  auto candidate = generate(parse_recipe(recipe).value(), parse_problem(problem).value(), hopper());
  EXPECT_TRUE(candidate.ok()) << recipe << " " << (candidate ? "" : candidate.error().message);
  return std::move(*candidate);
}

ExportedKernel exported(const std::string& recipe, const std::string& problem, const ExportOptions& options = {}) {
  auto kernel = export_cuda(candidate_of(recipe, problem), parse_problem(problem).value(), options);
  EXPECT_TRUE(kernel.ok()) << (kernel ? "" : kernel.error().message);
  return std::move(*kernel);
}

// Source without what clang-format or fmt may break differently.
bool holds(const ExportedKernel& kernel, const std::string& text) {
  return kernel.source.find(text) != std::string::npos;
}

const char* const kSplit = "sm90 tile=64x64x64 stages=4 consumers=1 cluster=1x1 split=4 epilogue=staged";

TEST(ExportCuda, NamesSayWhatDiffersFromTheUsual) {
  const auto name = [](const std::string& problem) { return exported_name(parse_problem(problem).value()); };
  EXPECT_EQ(name("64x4096x64 nn"), "warpsmith_hgemm_64x4096x64_nn");
  EXPECT_EQ(name("64x4096x64 tn bf16"), "warpsmith_hgemm_64x4096x64_tn_bf16");
  EXPECT_EQ(name("1024x512x256 tn f16 f32 scaled ld=264,264,520"),
            "warpsmith_hgemm_1024x512x256_tn_scaled_ld264_264_520");
}

TEST(ExportCuda, WritesTheLaunchDown) {
  const Candidate candidate = candidate_of(kSplit, "256x128x4096 tn");
  const KernelLaunch& launch = std::get<CudaLaunch>(candidate.launch).kernels.front();
  const ExportedKernel kernel = exported(kSplit, "256x128x4096 tn");
  EXPECT_EQ(kernel.declaration,
            "extern \"C\" cudaError_t warpsmith_hgemm_256x128x4096_tn(const void* a, const void* b, void* c, void* "
            "workspace, cudaStream_t stream)");
  EXPECT_TRUE(holds(kernel, "config.gridDim = dim3(" + std::to_string(launch.grid[0]) + ", "));
  EXPECT_TRUE(holds(kernel, "config.blockDim = dim3(" + std::to_string(launch.block[0]) + ", 1, 1)"));
  EXPECT_TRUE(holds(kernel, "config.dynamicSmemBytes = " + std::to_string(launch.dynamic_smem_bytes) + ";"));
  EXPECT_TRUE(
      holds(kernel, "cudaFuncAttributeMaxDynamicSharedMemorySize, " + std::to_string(launch.dynamic_smem_bytes)));
  EXPECT_TRUE(holds(kernel, ".val.clusterDim.x = 4;"));
  EXPECT_FALSE(holds(kernel, "NonPortableClusterSizeAllowed"));
  EXPECT_FALSE(holds(kernel, "ProgrammaticStreamSerialization;"));
  // A is 256 x 4096 as stored, in boxes of 64 columns.
  EXPECT_TRUE(holds(kernel,
                    "map_a_cache.update(a, {CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 4096, 256, 4096, 64, 64, "
                    "CU_TENSOR_MAP_SWIZZLE_128B"));
  EXPECT_TRUE(holds(kernel, "layout tn: A stored 256 x 4096, B stored 128 x 4096, C stored 256 x 128"));
  // Entries of several files can be linked together, host functions called by their own names.
  EXPECT_TRUE(holds(kernel, "warpsmith_sm90_gemm_256x128x4096_tn(const __grid_constant__"));
  EXPECT_FALSE(holds(kernel, "warpsmith_sm90_gemm("));
}

TEST(ExportCuda, AsksForClustersBeyondThePortableSize) {
  const std::string recipe = "sm90 tile=64x64x64 stages=4 consumers=1 cluster=1x1 split=16 epilogue=staged";
  EXPECT_TRUE(holds(exported(recipe, "64x64x16384 tn"), "cudaFuncAttributeNonPortableClusterSizeAllowed, 1"));
}

TEST(ExportCuda, LaunchesDependentlyOnlyWhenAsked) {
  const std::string recipe = "tiny tile=16x32x16 warps=1x1x4 pdl=1";
  const char* const attribute = "cudaLaunchAttributeProgrammaticStreamSerialization;";
  EXPECT_FALSE(holds(exported(recipe, "64x64x64 nn"), attribute));
  EXPECT_TRUE(holds(exported(recipe, "64x64x64 nn", {{}, true}), attribute));
}

TEST(ExportCuda, WantsAWorkspaceWhereTheKernelDoes) {
  const std::string recipe =
      "sm90 tile=128x128x64 stages=4 consumers=2 cluster=1x1 persistent=1 streamk=1 epilogue=staged";
  const Candidate candidate = candidate_of(recipe, "640x1024x4096 tn");
  const std::int64_t bytes = std::get<CudaLaunch>(candidate.launch).workspace_bytes;
  ASSERT_GT(bytes, 0);
  const ExportedKernel kernel = exported(recipe, "640x1024x4096 tn");
  EXPECT_EQ(kernel.workspace_bytes, bytes);
  EXPECT_TRUE(holds(kernel, "// Workspace    " + std::to_string(bytes) + " bytes"));
  EXPECT_TRUE(holds(kernel, "if (workspace == nullptr) return cudaErrorInvalidValue;"));
  EXPECT_TRUE(holds(kernel, "&workspace"));
  EXPECT_TRUE(holds(exported(kSplit, "256x128x4096 tn"), "// Workspace    none"));
}

TEST(ExportCuda, KeepsTheNotes) {
  const ExportedKernel kernel = exported(kSplit, "256x128x4096 tn", {{"Measured     2.31 us", ""}, false});
  EXPECT_TRUE(holds(kernel, "// Measured     2.31 us\n//\n"));
  EXPECT_TRUE(holds(kernel, "nvcc -std=c++20 -O3 -arch=sm_90a -c warpsmith_hgemm_256x128x4096_tn.cu"));
}

TEST(ExportCuda, RefusesWhatItCannotWriteDown) {
  Candidate cpu;
  cpu.language = Language::cpp;
  cpu.launch = CpuLaunch{};
  const Problem problem = parse_problem("64x64x64 nn").value();
  EXPECT_EQ(export_cuda(cpu, problem, {}).error().kind, ErrorKind::bad_input);
  Candidate wrong = candidate_of(kSplit, "256x128x4096 tn");
  std::get<CudaLaunch>(wrong.launch).kernels.front().arguments.pop_back();
  EXPECT_EQ(export_cuda(wrong, problem, {}).error().kind, ErrorKind::failed);
}

TEST(ExportCuda, DeclaresAllInOneHeader) {
  const std::string header =
      export_header({exported(kSplit, "256x128x4096 tn"), exported("tiny tile=16x32x16 warps=1x1x4", "64x64x64 nn")});
  EXPECT_NE(header.find("extern \"C\" cudaError_t warpsmith_hgemm_256x128x4096_tn("), std::string::npos);
  EXPECT_NE(header.find("extern \"C\" cudaError_t warpsmith_hgemm_64x64x64_nn("), std::string::npos);
}

#ifdef WARPSMITH_NVCC
// All files of one program, as a user would compile and link them.
TEST(ExportCuda, CompilesAndLinksOneOfEachFamily) {
  std::string pattern = (std::filesystem::temp_directory_path() / "warpsmith-export-XXXXXX").string();
  ASSERT_NE(mkdtemp(pattern.data()), nullptr);
  const std::filesystem::path directory = pattern;
  const std::vector<std::pair<std::string, std::string>> kernels = {
      {"sm90 tile=128x128x64 stages=4 consumers=2 cluster=1x1 persistent=1 streamk=1 epilogue=tma",
       "640x1024x4096 tn bf16"},
      {"sm80 tile=128x128x32 warps=2x2 stages=3", "512x512x512 nn f16 f32 scaled ld=520,512,528"},
      {"tiny tile=16x32x16 warps=1x1x4 pdl=1", "64x64x64 nn"},
      {"skinny warps=1x4 split=2", "16x4096x4096 tn"}};
  ProcessRequest request;
  request.argv = {WARPSMITH_NVCC, "-std=c++20", "-arch=sm_90a", "-Werror", "all-warnings",
                  "-shared",      "-Xcompiler", "-fPIC",        "-o",      (directory / "kernels.so").string()};
  for (const auto& [recipe, problem] : kernels) {
    const ExportedKernel kernel = exported(recipe, problem, {{}, true});
    const std::filesystem::path path = directory / (kernel.name + ".cu");
    // The first one's self-check is compiled along: a program has one main.
    const std::string define = request.argv.back().ends_with(".so") ? "#define WARPSMITH_EXPORT_MAIN\n" : "";
    ASSERT_TRUE(write_file_atomic(path, define + kernel.source).ok());
    request.argv.push_back(path.string());
  }
  request.limits.wall_seconds = 280;
  const auto output = run_process(request);
  ASSERT_TRUE(output.ok()) << output.error().message;
  ASSERT_EQ(output->status.exit_code, 0) << output->out << output->err;  // the files stay, to be looked at
  std::filesystem::remove_all(directory);
}
#endif

}  // namespace
}  // namespace warpsmith
