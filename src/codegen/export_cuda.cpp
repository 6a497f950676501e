// Writes the launch descriptor down as host code, around the kernel's source.
#include "codegen/export_cuda.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>
#include <string_view>
#include <utility>
#include <variant>

#include "codegen/amalgamate.h"

namespace warpsmith {

namespace {

constexpr int kPortableCluster = 8;  // blocks; larger clusters need the kernel's consent

bool is_identifier(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// Every occurrence of `from` as a whole word.
std::string replace_word(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t found = text.find(from, at);
    if (found == std::string_view::npos) {
      out += text.substr(at);
      break;
    }
    const std::size_t end = found + from.size();
    const bool whole =
        (found == 0 || !is_identifier(text[found - 1])) && (end == text.size() || !is_identifier(text[end]));
    out += text.substr(at, found - at);
    out += whole ? to : from;
    at = end;
  }
  return out;
}

// The last identifier of each parameter of `entry`, in order; empty where its declaration cannot be read.
std::vector<std::string> parameter_names(std::string_view source, const std::string& entry) {
  const std::size_t at = source.find(entry + "(");
  if (at == std::string_view::npos) return {};
  const std::size_t open = at + entry.size();
  std::vector<std::string> names;
  std::string name;
  int depth = 0;
  for (std::size_t i = open; i < source.size(); ++i) {
    const char c = source[i];
    if (c == '(' || c == '<') ++depth;
    if (c == ')' || c == '>') --depth;
    if (is_identifier(c)) {
      if (!is_identifier(source[i - 1])) name.clear();
      name += c;
    }
    if ((c == ',' && depth == 1) || (c == ')' && depth == 0)) {
      if (!name.empty()) names.push_back(name);
      name.clear();
    }
    if (depth == 0) return names;
  }
  return {};
}

std::string dims_text(const std::array<int, 3>& dims) {
  return fmt::format("dim3({}, {}, {})", dims[0], dims[1], dims[2]);
}

const char* swizzle_name(int bytes) {
  return bytes == 32    ? "CU_TENSOR_MAP_SWIZZLE_32B"
         : bytes == 64  ? "CU_TENSOR_MAP_SWIZZLE_64B"
         : bytes == 128 ? "CU_TENSOR_MAP_SWIZZLE_128B"
                        : "CU_TENSOR_MAP_SWIZZLE_NONE";
}

const char* promotion_name(int bytes) {
  return bytes == 64    ? "CU_TENSOR_MAP_L2_PROMOTION_L2_64B"
         : bytes == 128 ? "CU_TENSOR_MAP_L2_PROMOTION_L2_128B"
         : bytes == 256 ? "CU_TENSOR_MAP_L2_PROMOTION_L2_256B"
                        : "CU_TENSOR_MAP_L2_PROMOTION_NONE";
}

// Declares one argument where it needs a variable of its own and gives its address.
std::string argument_text(const KernelArgument& argument, const std::string& name, ElementType element,
                          std::string& declarations) {
  const auto declare = [&](const std::string& text) { declarations += "    " + text + "\n"; };
  switch (argument.kind) {
    case KernelArgument::Kind::pointer:
      return fmt::format("&{}", to_string(argument.operand));
    case KernelArgument::Kind::workspace:
      if (argument.offset_bytes == 0) return "&workspace";
      declare(fmt::format("void* {}_part = static_cast<char*>(workspace) + {};", name, argument.offset_bytes));
      return fmt::format("&{}_part", name);
    case KernelArgument::Kind::int32:
      declare(fmt::format("int {}_value = {};", name, argument.value));
      return fmt::format("&{}_value", name);
    case KernelArgument::Kind::float32:
      declare(fmt::format("float {}_value = {:a}f;", name, static_cast<double>(argument.real)));
      return fmt::format("&{}_value", name);
    case KernelArgument::Kind::alpha:
      return "&alpha";
    case KernelArgument::Kind::beta:
      return "&beta";
    case KernelArgument::Kind::tensor_map: {
      const TensorMap& map = argument.map;
      declare(fmt::format("static thread_local CachedMap {}_cache;  // over {}: columns, rows, row stride; box", name,
                          to_string(map.operand)));
      declare(fmt::format(
          "status = {}_cache.update({}, {{{}, {}, {}, {}, {}, {}, {}, {}}});", name, to_string(map.operand),
          element == ElementType::f16 ? "CU_TENSOR_MAP_DATA_TYPE_FLOAT16" : "CU_TENSOR_MAP_DATA_TYPE_BFLOAT16",
          map.dims[0], map.dims[1], map.ld, map.box[0], map.box[1], swizzle_name(map.swizzle_bytes),
          promotion_name(map.l2_promotion_bytes)));
      declare("if (status != cudaSuccess) return status;");
      return fmt::format("&{}_cache.map", name);
    }
  }
  return {};
}

// What every device needs once before the first launch.
std::string prepare_text(const KernelLaunch& kernel, const std::string& symbol) {
  std::string text;
  const auto set = [&](const char* attribute, int value) {
    text += fmt::format("    status = cudaFuncSetAttribute({}, {}, {});\n", symbol, attribute, value);
    text += "    if (status != cudaSuccess) return status;\n";
  };
  if (kernel.dynamic_smem_bytes > 0) set("cudaFuncAttributeMaxDynamicSharedMemorySize", kernel.dynamic_smem_bytes);
  if (kernel.cluster[0] * kernel.cluster[1] * kernel.cluster[2] > kPortableCluster) {
    set("cudaFuncAttributeNonPortableClusterSizeAllowed", 1);
  }
  return text;
}

std::string attributes_text(const KernelLaunch& kernel, bool pdl) {
  std::string text;
  int count = 0;
  if (kernel.cluster != std::array{1, 1, 1}) {
    text += fmt::format("    attributes[{0}].id = cudaLaunchAttributeClusterDimension;\n", count);
    for (const auto& [axis, size] :
         {std::pair{'x', kernel.cluster[0]}, {'y', kernel.cluster[1]}, {'z', kernel.cluster[2]}}) {
      text += fmt::format("    attributes[{}].val.clusterDim.{} = {};\n", count, axis, size);
    }
    ++count;
  }
  if (pdl && kernel.programmatic_dependent_launch) {
    // The kernel itself waits for what came before, once it is set up.
    text += fmt::format(
        "    attributes[{0}].id = cudaLaunchAttributeProgrammaticStreamSerialization;\n"
        "    attributes[{0}].val.programmaticStreamSerializationAllowed = 1;\n",
        count++);
  }
  if (count == 0) return {};
  return fmt::format(
      "    cudaLaunchAttribute attributes[{0}] = {{}};\n{1}    config.attrs = attributes;\n    config.numAttrs = "
      "{0};\n",
      count, text);
}

struct HostCode {
  std::string prepare, launches;
};

Result<std::string> launch_text(const KernelLaunch& kernel, const std::string& symbol, const Candidate& candidate,
                                const Problem& problem, bool pdl) {
  const std::vector<std::string> names = parameter_names(candidate.source, kernel.entry);
  if (names.size() != kernel.arguments.size()) {
    return failure(fmt::format("{} is declared with {} parameters, its launch gives {}", kernel.entry, names.size(),
                               kernel.arguments.size()));
  }
  std::string declarations, addresses;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::string address = argument_text(kernel.arguments[i], names[i], problem.element, declarations);
    addresses += (i == 0 ? "" : ", ") + address;
  }
  return fmt::format(
      "  {{\n{declarations}"
      "    cudaLaunchConfig_t config = {{}};\n"
      "    config.gridDim = {grid};\n"
      "    config.blockDim = {block};\n"
      "    config.dynamicSmemBytes = {smem};\n"
      "    config.stream = stream;\n{attributes}"
      "    void* arguments[] = {{{addresses}}};\n"
      "    status = cudaLaunchKernelExC(&config, reinterpret_cast<const void*>({symbol}), arguments);\n"
      "    if (status != cudaSuccess) return status;\n"
      "  }}\n",
      fmt::arg("declarations", declarations), fmt::arg("grid", dims_text(kernel.grid)),
      fmt::arg("block", dims_text(kernel.block)), fmt::arg("smem", kernel.dynamic_smem_bytes),
      fmt::arg("attributes", attributes_text(kernel, pdl)), fmt::arg("addresses", addresses),
      fmt::arg("symbol", symbol));
}

std::string parameters_text(const Problem& problem) {
  return fmt::format("const void* a, const void* b, void* c, {}void* workspace, cudaStream_t stream",
                     problem.scaled() ? "float alpha, float beta, " : "");
}

std::string operands_text(const Problem& problem) {
  const auto matrix = [](const char* name, std::int64_t rows, std::int64_t columns, std::int64_t ld) {
    return fmt::format("{} stored {} x {}{}", name, rows, columns,
                       ld == columns ? "" : fmt::format(" (rows {} apart)", ld));
  };
  return fmt::format("layout {}: {}, {}, {}, all row-major", to_string(problem.layout),
                     matrix("A", problem.a_rows(), problem.a_cols(), problem.a_ld()),
                     matrix("B", problem.b_rows(), problem.b_cols(), problem.b_ld()),
                     matrix("C", problem.m, problem.n, problem.c_ld()));
}

std::string header_text(const ExportedKernel& kernel, const Candidate& candidate, const Problem& problem,
                        const CudaLaunch& launch, const ExportOptions& options) {
  std::string text = fmt::format(
      "// C[{m},{n}] = {alpha}A[{m},{k}] * B[{k},{n}]{beta}; {element} elements, FP32 accumulation.\n"
      "// {operands}.\n//\n",
      fmt::arg("m", problem.m), fmt::arg("n", problem.n), fmt::arg("k", problem.k),
      fmt::arg("alpha", problem.scaled() ? "alpha * " : ""), fmt::arg("beta", problem.scaled() ? " + beta * C" : ""),
      fmt::arg("element", to_string(problem.element)), fmt::arg("operands", operands_text(problem)));
  for (const std::string& note : options.notes) text += note.empty() ? "//\n" : "// " + note + "\n";
  text += fmt::format(
      "//\n"
      "// Compile      nvcc -std=c++20 -O3 -arch={arch} -c {name}.cu\n"
      "// Self-check   nvcc -std=c++20 -O3 -arch={arch} -DWARPSMITH_EXPORT_MAIN -o check {name}.cu && ./check\n"
      "// Use          {declaration};\n",
      fmt::arg("arch", candidate.arch), fmt::arg("name", kernel.name), fmt::arg("declaration", kernel.declaration));
  if (launch.workspace_bytes > 0) {
    text +=
        fmt::format("// Workspace    {} bytes of device memory, 256-byte aligned, for one stream at a time{}.\n",
                    launch.workspace_bytes,
                    launch.zero_workspace ? "; cleared once before the first launch, launches leave it cleared" : "");
  } else {
    text += "// Workspace    none: a null pointer will do.\n";
  }
  return text +
         "#if __cplusplus < 202002L\n"
         "#error \"compile with -std=c++20\"\n"
         "#endif\n\n";
}

// The host's half of nvcc (13.0 at least) writes class-type template arguments in assertions down wrongly; for the
// device they hold as well.
std::string assert_on_device(std::string_view source) {
  std::string out;
  for (std::size_t at = 0; at < source.size();) {
    const std::size_t end = std::min(source.find('\n', at), source.size());
    const std::string_view line = source.substr(at, end - at);
    at = end + 1;
    const bool assertion = line.substr(0, 14) == "static_assert(" && line.find("<kConfig>") != std::string_view::npos;
    out += assertion ? fmt::format("#ifdef __CUDA_ARCH__\n{}\n#endif\n", line) : fmt::format("{}\n", line);
  }
  return out;
}

// nvcc may compile a file for the plain architecture as well, which lacks the instructions of an architecture-specific
// one ("sm_90a"): nothing is left of the file there.
std::string where_it_runs(const std::string& text, const std::string& arch) {
  if (arch.empty() || arch.back() != 'a') return text;
  const std::string feature = fmt::format("__CUDA_ARCH_FEAT_SM{}_ALL", arch.substr(3, arch.size() - 4));
  return fmt::format("#if !defined(__CUDA_ARCH__) || defined({0})\n\n{1}\n#endif  // {0}\n", feature, text);
}

std::string main_text(const ExportedKernel& kernel, const Problem& problem) {
  const auto boolean = [](bool value) { return value ? "true" : "false"; };
  return fmt::format(
      "\n#ifdef WARPSMITH_EXPORT_MAIN\n"
      "#include \"device/standalone/self_check.cuh\"\n\n"
      "int main(int argc, char** argv) {{\n"
      "  warpsmith::standalone::CheckedKernel kernel{{}};\n"
      "  kernel.name = \"{name}\";\n"
      "  kernel.m = {m}, kernel.n = {n}, kernel.k = {k};\n"
      "  kernel.a_k_major = {a_k_major}, kernel.b_k_major = {b_k_major};\n"
      "  kernel.lda = {lda}, kernel.ldb = {ldb}, kernel.ldc = {ldc};\n"
      "  kernel.bf16 = {bf16}, kernel.scaled = {scaled};\n"
      "  kernel.workspace_bytes = {workspace};\n"
      "  kernel.launch = [](const void* a, const void* b, void* c, float{alpha}, float{beta}, void* workspace,\n"
      "                     cudaStream_t stream) {{\n"
      "    return {name}(a, b, c, {scaling}workspace, stream);\n"
      "  }};\n"
      "  return warpsmith::standalone::self_check(kernel, argc > 1 && std::string(argv[1]) == \"--json\");\n"
      "}}\n"
      "#endif  // WARPSMITH_EXPORT_MAIN\n",
      fmt::arg("name", kernel.name), fmt::arg("m", problem.m), fmt::arg("n", problem.n), fmt::arg("k", problem.k),
      fmt::arg("a_k_major", boolean(problem.a_is_k_major())), fmt::arg("b_k_major", boolean(problem.b_is_k_major())),
      fmt::arg("lda", problem.a_ld()), fmt::arg("ldb", problem.b_ld()), fmt::arg("ldc", problem.c_ld()),
      fmt::arg("bf16", boolean(problem.element == ElementType::bf16)), fmt::arg("scaled", boolean(problem.scaled())),
      fmt::arg("workspace", kernel.workspace_bytes), fmt::arg("alpha", problem.scaled() ? " alpha" : ""),
      fmt::arg("beta", problem.scaled() ? " beta" : ""), fmt::arg("scaling", problem.scaled() ? "alpha, beta, " : ""));
}

std::string function_text(const ExportedKernel& kernel, const CudaLaunch& launch, const std::string& prepare,
                          const std::string& launches) {
  std::string text =
      "\n// Launches on `stream` and returns at once; may be captured in a graph, and called from several threads.\n";
  text += kernel.declaration + " {\n";
  text += "  using warpsmith::standalone::CachedMap;\n";
  text += "  cudaError_t status = cudaSuccess;\n";
  if (launch.workspace_bytes > 0) text += "  if (workspace == nullptr) return cudaErrorInvalidValue;\n";
  if (!prepare.empty()) {
    text +=
        "  static thread_local int prepared_device = -1;\n"
        "  int device = 0;\n"
        "  status = cudaGetDevice(&device);\n"
        "  if (status != cudaSuccess) return status;\n"
        "  if (device != prepared_device) {\n" +
        prepare +
        "    prepared_device = device;\n"
        "  }\n";
  }
  return text + launches + "  return status;\n}\n";
}

}  // namespace

std::string exported_name(const Problem& problem) {
  std::string name =
      fmt::format("warpsmith_hgemm_{}x{}x{}_{}", problem.m, problem.n, problem.k, to_string(problem.layout));
  if (problem.element != ElementType::f16) name += fmt::format("_{}", to_string(problem.element));
  if (problem.scaled()) name += "_scaled";
  if (!problem.packed()) name += fmt::format("_ld{}_{}_{}", problem.a_ld(), problem.b_ld(), problem.c_ld());
  return name;
}

Result<ExportedKernel> export_cuda(const Candidate& candidate, const Problem& problem, const ExportOptions& options) {
  if (!std::holds_alternative<CudaLaunch>(candidate.launch)) {
    return bad_input("a kernel for the CPU cannot be exported; accepted: kernels of the CUDA families");
  }
  const auto& launch = std::get<CudaLaunch>(candidate.launch);
  ExportedKernel kernel;
  kernel.name = exported_name(problem);
  kernel.declaration = fmt::format("extern \"C\" cudaError_t {}({})", kernel.name, parameters_text(problem));
  kernel.workspace_bytes = launch.workspace_bytes;
  std::string device = assert_on_device(candidate.source), prepare, launches;
  std::set<std::string> renamed;
  for (const KernelLaunch& each : launch.kernels) {
    // Entries of several exported files may be linked into one program.
    const std::string symbol = each.entry + kernel.name.substr(std::string_view("warpsmith_hgemm").size());
    const auto text = launch_text(each, symbol, candidate, problem, options.programmatic_dependent_launch);
    if (!text) return text.error();
    launches += *text;
    if (!renamed.insert(each.entry).second) continue;
    device = replace_word(device, each.entry, symbol);
    prepare += prepare_text(each, symbol);
  }
  const auto host = amalgamate("#include \"device/standalone/tensor_map.cuh\"\n");
  if (!host) return host.error();
  const auto main = amalgamate(main_text(kernel, problem));
  if (!main) return main.error();
  kernel.source =
      header_text(kernel, candidate, problem, launch, options) +
      where_it_runs(*host + "\n" + device + function_text(kernel, launch, prepare, launches) + *main, candidate.arch);
  return kernel;
}

std::string export_header(const std::vector<ExportedKernel>& kernels) {
  std::string text =
      "// Host functions of exported kernels. Each launches on `stream` and returns at once; its file says what it "
      "computes.\n"
      "#pragma once\n\n#include <cuda_runtime_api.h>\n\n";
  for (const ExportedKernel& kernel : kernels) {
    text += fmt::format("// workspace: {} bytes\n{};\n", kernel.workspace_bytes, kernel.declaration);
  }
  return text;
}

}  // namespace warpsmith
