// The choice as a JSON object.
#include "library/explain.h"

namespace warpsmith::library {

namespace {

nlohmann::json number_or_null(double value) { return value > 0 ? nlohmann::json(value) : nlohmann::json(nullptr); }

nlohmann::json text_or_null(const std::string& text) {
  return text.empty() ? nlohmann::json(nullptr) : nlohmann::json(text);
}

nlohmann::json problem_json(const CallKey& key) {
  nlohmann::json json = {{"op_a", (key.flags & kCallTransposeA) != 0 ? "T" : "N"},
                         {"op_b", (key.flags & kCallTransposeB) != 0 ? "T" : "N"},
                         {"m", key.m},
                         {"n", key.n},
                         {"k", key.k},
                         {"lda", key.lda},
                         {"ldb", key.ldb},
                         {"ldc", key.ldc},
                         {"type", (key.flags & kCallBf16) != 0 ? "bf16" : "f16"},
                         {"compute", (key.flags & kCallCompute16) != 0 ? "16f" : "32f"},
                         {"batch_count", key.batch_count}};
  if (key.batch_count > 1) json["strides"] = {key.stride_a, key.stride_b, key.stride_c};
  return json;
}

}  // namespace

nlohmann::json explain(const CallKey& key, const Explanation& explanation, const Machine& machine,
                       warpsmith_mode_t mode, bool has_wisdom, bool has_pack) {
  nlohmann::json json = {{"problem", problem_json(key)},
                         {"device", machine.name},
                         {"mode", mode == WARPSMITH_MODE_SERVER ? "server" : "offline"},
                         {"wisdom", has_wisdom},
                         {"pack", has_pack}};
  if (!explanation.note.empty()) json["note"] = explanation.note;
  if (explanation.chosen >= explanation.choices.size()) {
    json["runs"] = "nothing";
    return json;
  }
  const Choice& choice = explanation.choices[explanation.chosen];
  json["runs"] = choice.recipe ? "kernel" : "cublaslt";
  json["source"] = to_string(choice.source);
  json["match"] = {{"entry", text_or_null(choice.matched)},
                   {"distance", choice.matched.empty() ? nlohmann::json(nullptr) : nlohmann::json(choice.distance)},
                   {"exact", choice.source == ChoiceSource::wisdom_exact}};
  json["dependent_launch"] = choice.dependent;
  json["expected_us"] = number_or_null(choice.expected_us);
  json["baseline"] = text_or_null(choice.baseline);
  json["baseline_us"] = number_or_null(choice.baseline_us);
  json["baseline_setting"] = text_or_null(choice.baseline_setting);
  json["recipe"] = choice.recipe ? nlohmann::json(to_string(*choice.recipe)) : nlohmann::json(nullptr);
  json["kernel"] = choice.recipe ? nlohmann::json{{"family", choice.recipe->family().name},
                                                  {"key", explanation.kernel_key},
                                                  {"arch", explanation.arch},
                                                  {"cubin", explanation.cubin}}
                                 : nlohmann::json(nullptr);
  return json;
}

}  // namespace warpsmith::library
