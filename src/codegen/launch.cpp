// Launch descriptors as JSON: what travels to the worker and what an exported kernel carries.
#include "codegen/launch.h"

namespace warpsmith {

NLOHMANN_JSON_SERIALIZE_ENUM(Operand, {{Operand::a, "a"}, {Operand::b, "b"}, {Operand::c, "c"}})
NLOHMANN_JSON_SERIALIZE_ENUM(KernelArgument::Kind, {{KernelArgument::Kind::pointer, "pointer"},
                                                    {KernelArgument::Kind::workspace, "workspace"},
                                                    {KernelArgument::Kind::int32, "int32"},
                                                    {KernelArgument::Kind::tensor_map, "tensor_map"}})

namespace {

nlohmann::json map_to_json(const TensorMap& map) {
  return {{"operand", map.operand},
          {"dims", map.dims},
          {"box", map.box},
          {"swizzle_bytes", map.swizzle_bytes},
          {"l2_promotion_bytes", map.l2_promotion_bytes}};
}

TensorMap map_from_json(const nlohmann::json& json) {
  TensorMap map;
  json.at("operand").get_to(map.operand);
  json.at("dims").get_to(map.dims);
  json.at("box").get_to(map.box);
  json.at("swizzle_bytes").get_to(map.swizzle_bytes);
  json.at("l2_promotion_bytes").get_to(map.l2_promotion_bytes);
  return map;
}

nlohmann::json argument_to_json(const KernelArgument& argument) {
  nlohmann::json json = {{"kind", argument.kind}};
  switch (argument.kind) {
    case KernelArgument::Kind::pointer:
      json["operand"] = argument.operand;
      break;
    case KernelArgument::Kind::workspace:
      break;
    case KernelArgument::Kind::int32:
      json["value"] = argument.value;
      break;
    case KernelArgument::Kind::tensor_map:
      json["map"] = map_to_json(argument.map);
      break;
  }
  return json;
}

KernelArgument argument_from_json(const nlohmann::json& json) {
  switch (json.at("kind").get<KernelArgument::Kind>()) {
    case KernelArgument::Kind::pointer:
      return KernelArgument::pointer_to(json.at("operand").get<Operand>());
    case KernelArgument::Kind::workspace:
      return KernelArgument::workspace_pointer();
    case KernelArgument::Kind::int32:
      return KernelArgument::integer(json.at("value").get<std::int32_t>());
    case KernelArgument::Kind::tensor_map:
      return KernelArgument::tensor(map_from_json(json.at("map")));
  }
  return {};
}

}  // namespace

void to_json(nlohmann::json& json, const CudaLaunch& launch) {
  nlohmann::json arguments = nlohmann::json::array();
  for (const KernelArgument& argument : launch.arguments) arguments.push_back(argument_to_json(argument));
  json = {{"entry", launch.entry},
          {"grid", launch.grid},
          {"block", launch.block},
          {"cluster", launch.cluster},
          {"dynamic_smem_bytes", launch.dynamic_smem_bytes},
          {"workspace_bytes", launch.workspace_bytes},
          {"zero_workspace", launch.zero_workspace},
          {"programmatic_dependent_launch", launch.programmatic_dependent_launch},
          {"arguments", std::move(arguments)}};
}

void from_json(const nlohmann::json& json, CudaLaunch& launch) {
  json.at("entry").get_to(launch.entry);
  json.at("grid").get_to(launch.grid);
  json.at("block").get_to(launch.block);
  json.at("cluster").get_to(launch.cluster);
  json.at("dynamic_smem_bytes").get_to(launch.dynamic_smem_bytes);
  json.at("workspace_bytes").get_to(launch.workspace_bytes);
  json.at("zero_workspace").get_to(launch.zero_workspace);
  json.at("programmatic_dependent_launch").get_to(launch.programmatic_dependent_launch);
  launch.arguments.clear();
  for (const auto& argument : json.at("arguments")) launch.arguments.push_back(argument_from_json(argument));
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
