// The learner: weights, their optimiser, and gradient steps on batches of outputs. The work is done by
// warpsmith-torch.so, loaded at run time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "policy/embedded/proposer.h"
#include "policy/embedded/transformer.h"
#include "train/config.h"
#include "train/torch_module.h"

namespace warpsmith::train {

// One output to learn from.
struct Example {
  embedded::Prompt prompt;
  embedded::Output output;
  double weight = 1;     // of its likelihood
  double advantage = 0;  // in the clipped objective
};

// Examples as the module takes them. Tokens that had no alternative are no targets.
class Batch {
 public:
  explicit Batch(const std::vector<Example>& examples);
  const WarpsmithTorchBatch& view() const { return view_; }
  std::size_t targets() const { return token_.size(); }
  void set_old_log_p(std::vector<float> values);
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

 private:
  std::vector<std::int32_t> tokens_, segments_, at_, token_, sequence_, allowed_begin_, allowed_;
  std::vector<float> weight_, advantage_, old_log_p_;
  WarpsmithTorchBatch view_{};
};

struct LearnerState {
  std::vector<float> weights, moments;  // moments: twice as many
  std::int64_t steps = 0;
};

class Learner {
 public:
  // module: the file to load; empty: warpsmith-torch.so beside the program. Error (environment): not there, or its
  // device is not.
  static Result<std::unique_ptr<Learner>> open(const embedded::ModelShape& shape, const TrainConfig& config,
                                               const std::filesystem::path& module = {});
  ~Learner();
  Learner(const Learner&) = delete;
  Learner& operator=(const Learner&) = delete;

  std::string torch_version() const { return module_->torch_version; }
  // Errors (failed) of all: what LibTorch says; a loss that is not finite. Nothing has changed then.
  Status set_state(const LearnerState& state);
  Result<LearnerState> state() const;
  Result<std::vector<float>> weights() const;
  Status set_reference(const std::vector<float>& weights);
  Result<std::vector<float>> log_p(const Batch& batch, double temperature) const;
  Result<WarpsmithTorchReport> step(const Batch& batch, const WarpsmithTorchObjective& objective);

 private:
  Learner() = default;
  const WarpsmithTorchModule* module_ = nullptr;
  WarpsmithTorchLearner* learner_ = nullptr;
  std::size_t count_ = 0;
};

// Whether training is possible here, without starting anything: the module's path, or what is missing.
Result<std::filesystem::path> find_torch_module();

}  // namespace warpsmith::train
