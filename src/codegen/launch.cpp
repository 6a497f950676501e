// Launch descriptors as JSON: what travels to the worker and what an exported kernel carries.
#include "codegen/launch.h"

#include <algorithm>

namespace warpsmith {

NLOHMANN_JSON_SERIALIZE_ENUM(Operand, {{Operand::a, "a"}, {Operand::b, "b"}, {Operand::c, "c"}})

namespace {

nlohmann::json map_to_json(const TensorMap& map) {
  return {{"operand", map.operand},
          {"dims", map.dims},
          {"ld", map.ld},
          {"box", map.box},
          {"swizzle_bytes", map.swizzle_bytes},
          {"l2_promotion_bytes", map.l2_promotion_bytes}};
}

TensorMap map_from_json(const nlohmann::json& json) {
  TensorMap map;
  json.at("operand").get_to(map.operand);
  json.at("dims").get_to(map.dims);
  json.at("ld").get_to(map.ld);
  json.at("box").get_to(map.box);
  json.at("swizzle_bytes").get_to(map.swizzle_bytes);
  json.at("l2_promotion_bytes").get_to(map.l2_promotion_bytes);
  return map;
}

nlohmann::json argument_to_json(const KernelArgument& argument) {
  switch (argument.kind) {
    case KernelArgument::Kind::pointer:
      return {{"pointer", argument.operand}};
    case KernelArgument::Kind::workspace:
      return {{"workspace", argument.offset_bytes}};
    case KernelArgument::Kind::int32:
      return {{"int32", argument.value}};
    case KernelArgument::Kind::float32:
      return {{"float32", argument.real}};
    case KernelArgument::Kind::alpha:
      return {{"alpha", true}};
    case KernelArgument::Kind::beta:
      return {{"beta", true}};
    case KernelArgument::Kind::tensor_map:
      return {{"tensor_map", map_to_json(argument.map)}};
  }
  return {};
}

KernelArgument argument_from_json(const nlohmann::json& json) {
  if (json.contains("pointer")) return KernelArgument::pointer_to(json["pointer"].get<Operand>());
  if (json.contains("workspace")) return KernelArgument::workspace_pointer(json["workspace"].get<std::int64_t>());
  if (json.contains("int32")) return KernelArgument::integer(json["int32"].get<std::int32_t>());
  if (json.contains("float32")) return KernelArgument::number(json["float32"].get<float>());
  if (json.contains("alpha")) return KernelArgument::alpha();
  if (json.contains("beta")) return KernelArgument::beta();
  return KernelArgument::tensor(map_from_json(json.at("tensor_map")));
}

nlohmann::json kernel_to_json(const KernelLaunch& kernel) {
  nlohmann::json arguments = nlohmann::json::array();
  for (const KernelArgument& argument : kernel.arguments) arguments.push_back(argument_to_json(argument));
  return {{"entry", kernel.entry},
          {"grid", kernel.grid},
          {"block", kernel.block},
          {"cluster", kernel.cluster},
          {"dynamic_smem_bytes", kernel.dynamic_smem_bytes},
          {"programmatic_dependent_launch", kernel.programmatic_dependent_launch},
          {"arguments", std::move(arguments)}};
}

KernelLaunch kernel_from_json(const nlohmann::json& json) {
  KernelLaunch kernel;
  json.at("entry").get_to(kernel.entry);
  json.at("grid").get_to(kernel.grid);
  json.at("block").get_to(kernel.block);
  json.at("cluster").get_to(kernel.cluster);
  json.at("dynamic_smem_bytes").get_to(kernel.dynamic_smem_bytes);
  json.at("programmatic_dependent_launch").get_to(kernel.programmatic_dependent_launch);
  for (const auto& argument : json.at("arguments")) kernel.arguments.push_back(argument_from_json(argument));
  return kernel;
}

}  // namespace

std::string_view to_string(Operand operand) { return operand == Operand::a ? "a" : operand == Operand::b ? "b" : "c"; }

bool CudaLaunch::offers_programmatic_dependent_launch() const {
  return std::any_of(kernels.begin(), kernels.end(),
                     [](const KernelLaunch& kernel) { return kernel.programmatic_dependent_launch; });
}

bool CudaLaunch::takes_scaling() const {
  return std::any_of(kernels.begin(), kernels.end(), [](const KernelLaunch& kernel) {
    return std::any_of(kernel.arguments.begin(), kernel.arguments.end(), [](const KernelArgument& argument) {
      return argument.kind == KernelArgument::Kind::alpha || argument.kind == KernelArgument::Kind::beta;
    });
  });
}

bool offers_programmatic_dependent_launch(const nlohmann::json& launch) {
  return launch.contains("kernels") && launch.get<CudaLaunch>().offers_programmatic_dependent_launch();
}

void to_json(nlohmann::json& json, const CudaLaunch& launch) {
  nlohmann::json kernels = nlohmann::json::array();
  for (const KernelLaunch& kernel : launch.kernels) kernels.push_back(kernel_to_json(kernel));
  json = {{"workspace_bytes", launch.workspace_bytes},
          {"zero_workspace", launch.zero_workspace},
          {"kernels", std::move(kernels)}};
}

void from_json(const nlohmann::json& json, CudaLaunch& launch) {
  json.at("workspace_bytes").get_to(launch.workspace_bytes);
  json.at("zero_workspace").get_to(launch.zero_workspace);
  launch.kernels.clear();
  for (const auto& kernel : json.at("kernels")) launch.kernels.push_back(kernel_from_json(kernel));
}

void to_json(nlohmann::json& json, const CpuLaunch& launch) {
  json = {{"entry", launch.entry},
          {"threads", launch.threads},
          {"workspace_bytes", launch.workspace_bytes},
          {"parameters", launch.parameters}};
}

void from_json(const nlohmann::json& json, CpuLaunch& launch) {
  json.at("entry").get_to(launch.entry);
  json.at("threads").get_to(launch.threads);
  json.at("workspace_bytes").get_to(launch.workspace_bytes);
  json.at("parameters").get_to(launch.parameters);
}

}  // namespace warpsmith
