// Looking for models.
#include "models.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/paths.h"
#include "base/text.h"
#include "policy/policy.h"

namespace warpsmith::cli {

std::vector<std::filesystem::path> model_places(Target target, const Machine& machine) {
  std::vector<std::string> names = {std::string(to_string(target))};
  if (is_cuda(target)) {
    names.emplace_back("cuda");
  } else if (machine.avx512 || machine.avx2) {
    names.insert(names.begin(), machine.avx512 ? "cpu-avx512" : "cpu-avx2");
  }
  const std::filesystem::path program = executable_dir();
  const std::filesystem::path directories[] = {data_dir() / "models", program / "models",
                                               (program / ".." / "share" / "warpsmith" / "models").lexically_normal()};
  std::vector<std::filesystem::path> places;
  for (const std::filesystem::path& directory : directories) {
    for (const std::string& name : names) places.push_back(directory / (name + ".safetensors"));
  }
  return places;
}

namespace {

std::vector<std::string> names_of(const std::vector<std::filesystem::path>& places) {
  std::vector<std::string> names;
  for (const std::filesystem::path& place : places) names.push_back(place.string());
  return names;
}

}  // namespace

std::vector<std::string> policy_choices() {
  std::vector<std::string> names = policy_names();
  names.emplace_back("llm");
  names.emplace_back("auto");
  return names;
}

Result<PolicyChoice> choose_policy(const std::string& name, const std::string& path, Target target,
                                   const Machine& machine) {
  const auto names = policy_choices();
  if (std::find(names.begin(), names.end(), name) == names.end()) {
    return bad_input(fmt::format("unknown policy '{}'; accepted: {}", printable(name), fmt::join(names, ", ")));
  }
  if (name != "auto" && name != "model") return PolicyChoice{name, nullptr, {}};
  std::vector<std::filesystem::path> places = model_places(target, machine);
  if (!path.empty()) places = {path};
  std::error_code ignored;
  std::string notice;
  for (const std::filesystem::path& place : places) {
    if (path.empty() && !std::filesystem::exists(place, ignored)) continue;
    auto model = embedded::load_shared_model(place);
    if (model) return PolicyChoice{"model", std::move(*model), {}};
    if (!path.empty()) return model.error();
    notice = model.error().message;
  }
  if (name == "auto") {
    return PolicyChoice{"evolution", nullptr, notice.empty() ? notice : notice + "; searching by evolution"};
  }
  if (notice.empty()) {
    notice = fmt::format("there is no model for target {}; looked for {}; give --model FILE, or train one",
                         to_string(target), fmt::join(names_of(places), ", "));
  }
  return bad_input(notice);
}

}  // namespace warpsmith::cli
