// Models that ship with the program or were trained here, and the policy that follows from them.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "policy/embedded/model_policy.h"
#include "problem/machine.h"

namespace warpsmith::cli {

// Where a target's model is looked for: models/NAME.safetensors in the data directory, beside the program, then in the
// installation's share/warpsmith. NAME: the target, such as sm90, then cuda; on the CPU cpu-avx512 or cpu-avx2, the
// widest that the machine has, since kernels for the one say little about the other's, and then cpu.
std::vector<std::filesystem::path> model_places(Target target, const Machine& machine);

struct PolicyChoice {
  std::string name;
  std::shared_ptr<const embedded::LoadedModel> model;  // of "model"
  std::string notice;                                  // why it is not the one that was hoped for; one line
};

// "auto": the model where one of this program's recipe version is found, else evolution, with a notice where there is a
// model that does not fit. "model" itself: an error then. path: a model file instead of the usual places.
Result<PolicyChoice> choose_policy(const std::string& name, const std::string& path, Target target,
                                   const Machine& machine);
std::vector<std::string> policy_choices();

}  // namespace warpsmith::cli
