// Replay trials: verdicts looked up in a recorded table; a recipe that it lacks costs a trial and gains nothing.
#include <deque>

#include "search/trials.h"

namespace warpsmith {

namespace {

class ReplayTrials : public Trials {
 public:
  ReplayTrials(const Problem& problem, const ReplayTable& table) : problem_(problem), table_(table) {}

  const Machine& machine() const override { return table_.machine(); }
  int wanted() const override { return queue_.empty() ? 1 : 0; }
  void submit(const Recipe& recipe) override { queue_.push_back(recipe); }
  bool pending() const override { return !queue_.empty(); }

  Trial next(double) override {
    const Recipe recipe = queue_.front();
    queue_.pop_front();
    Trial trial{recipe, table_.lookup(problem_, recipe), {}, 0};
    // The table stands for the environment: what it lacks is a property of the recipe, not a fault to stop at.
    if (const auto* missing = std::get_if<verdict::Failed>(&trial.verdict.outcome)) {
      trial.verdict.outcome = verdict::Illegal{"recorded", missing->reason};
    }
    return trial;
  }

 private:
  Problem problem_;
  const ReplayTable& table_;
  std::deque<Recipe> queue_;
};

}  // namespace

std::unique_ptr<Trials> make_replay_trials(const Problem& problem, const ReplayTable& table) {
  return std::make_unique<ReplayTrials>(problem, table);
}

}  // namespace warpsmith
