// GRPO on what a search was told.
#include "train/in_run.h"

#include "train/learner.h"
#include "train/trainer.h"

namespace warpsmith::train {

namespace {

class GroupLearner : public embedded::InRunLearner {
 public:
  GroupLearner(std::unique_ptr<Learner> learner, const TrainConfig& config)
      : learner_(std::move(learner)), config_(config) {}

  Result<std::vector<float>> learn(const std::vector<embedded::Lesson>& group, double reference_us) override {
    std::vector<double> raw;
    for (const embedded::Lesson& lesson : group) {
      const Measured measured{lesson.time_us ? "accepted" : "rejected", lesson.time_us, 0};
      raw.push_back(raw_reward(measured, reference_us, lesson.output.tokens.size(), config_.reward));
    }
    const auto advantages = advantages_of(raw, moments_, config_.reward.clip);
    std::vector<Example> examples;
    for (std::size_t i = 0; i < group.size(); ++i)
      examples.push_back({group[i].prompt, group[i].output, 1, advantages[i]});
    Batch batch(examples);
    auto old = learner_->log_p(batch, config_.contrastive.temperature);
    if (!old) return old.error();
    batch.set_old_log_p(std::move(*old));
    for (int i = 0; i < config_.contrastive.updates; ++i) {
      const auto report =
          learner_->step(batch, clipped_objective(config_, examples.size(), config_.contrastive.learning_rate));
      if (!report) return report.error();
    }
    return learner_->weights();
  }

 private:
  std::unique_ptr<Learner> learner_;
  TrainConfig config_;
  RunningMoments moments_;
};

}  // namespace

Result<std::shared_ptr<embedded::InRunLearner>> make_in_run_learner(const embedded::LoadedModel& model,
                                                                    const TrainConfig& config,
                                                                    const std::filesystem::path& module) {
  auto learner = Learner::open(model.transformer.shape(), config, module);
  if (!learner) return learner.error();
  const LearnerState state{model.transformer.weights(), {}, 0};
  if (const Status status = (*learner)->set_state(state); !status) return status.error();
  if (const Status status = (*learner)->set_reference(state.weights); !status) return status.error();
  return std::shared_ptr<embedded::InRunLearner>(std::make_shared<GroupLearner>(std::move(*learner), config));
}

}  // namespace warpsmith::train
