// Learning while a search runs: GRPO on groups of the policy's own proposals.
#pragma once

#include <memory>

#include "policy/embedded/model_policy.h"
#include "train/config.h"

namespace warpsmith::train {

// module: as for Learner::open(). Starts from `model`, whose weights are also the reference of the KL penalty. Error:
// environment (no LibTorch).
Result<std::shared_ptr<embedded::InRunLearner>> make_in_run_learner(const embedded::LoadedModel& model,
                                                                    const TrainConfig& config,
                                                                    const std::filesystem::path& module = {});

}  // namespace warpsmith::train
