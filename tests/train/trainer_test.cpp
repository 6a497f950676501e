// Training with LibTorch: the same forward pass, hand-computed objectives, steps that learn, runs that resume bit for
// bit, failures that overwrite nothing.
#include "train/trainer.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>

#include "base/file.h"
#include "landscape.h"
#include "train/checkpoint.h"
#include "train/course.h"
#include "train/in_run.h"

namespace warpsmith::train {
namespace {

#ifdef WARPSMITH_TORCH_MODULE
const std::filesystem::path kModule = WARPSMITH_TORCH_MODULE;
#else
const std::filesystem::path kModule;
#endif

const embedded::Vocabulary& vocabulary() { return embedded::Vocabulary::standard(); }

TrainConfig tiny_config() {
  TrainConfig config;
  config.threads = 1;
  config.model = {1, 32, 2, 48};
  config.held_out_share = 0.2;
  config.optimizer.warmup = 2;
  config.supervised.steps = 12;
  config.supervised.batch = 12;
  config.supervised.learning_rate = 5e-3;
  config.self.steps = 4;
  config.self.problems = 3;
  config.contrastive.steps = 4;
  config.contrastive.problems = 3;
  config.contrastive.group = 4;
  config.checkpoint_interval = 3;
  return config;
}

embedded::ModelShape shape_of(const TrainConfig& config) {
  return {vocabulary().size(), embedded::kSegments, config.model.layers,
          config.model.width,  config.model.heads,  config.model.hidden};
}

class TrainerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (kModule.empty()) GTEST_SKIP() << "not run: built without LibTorch";
    directory_ = std::filesystem::path(::testing::TempDir()) / fmt::format("trainer-{}-{}", getpid(), counter_++);
    std::filesystem::remove_all(directory_);
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  static Environment& environment() {
    static const auto kEnvironment =
        make_replay_environment(testing::landscape_table(testing::small_grid(), 40), "landscape");
    return *kEnvironment;
  }
  std::unique_ptr<Learner> learner(const TrainConfig& config, const std::vector<float>& weights) {
    auto opened = Learner::open(shape_of(config), config, kModule);
    EXPECT_TRUE(opened.ok()) << opened.error().message;
    EXPECT_TRUE((*opened)->set_state({weights, {}, 0}).ok());
    EXPECT_TRUE((*opened)->set_reference(weights).ok());
    return std::move(*opened);
  }
  Result<TrainSummary> run(const TrainOptions& options) {
    std::atomic<bool> stop{false};
    return train(
        options, environment(), [this](const TrainProgress& progress) { rows_.push_back(progress.row); }, stop);
  }
  TrainOptions options(const std::string& name, const TrainConfig& config) {
    TrainOptions made;
    made.config = config;
    made.output = directory_ / name;
    made.module = kModule;
    return made;
  }
  std::string bytes(const std::filesystem::path& path) { return read_file(path).value(); }

  std::filesystem::path directory_;
  std::vector<nlohmann::json> rows_;
  static inline int counter_ = 0;
};

// Sampled outputs with the inference engine's log-probabilities.
std::vector<Example> sampled(const TrainConfig& config, const std::vector<float>& weights, Environment& environment,
                             int count) {
  const embedded::Transformer model(shape_of(config), weights);
  Course course(environment, config);
  Rng rng(5);
  std::vector<Example> examples;
  for (int i = 0; i < count; ++i) {
    const auto index = static_cast<std::size_t>(i) % course.size();
    embedded::Proposer proposer(
        model, vocabulary(), course.grammar(index),
        course.prompt(index, i % 2 == 0 ? course.own_exemplars(index, embedded::ExemplarChoice::buckets, rng)
                                        : std::vector<embedded::Exemplar>()));
    examples.push_back({proposer.prompt(), proposer.sample(1, rng).output, 1, i % 3 == 0 ? 1.5 : -0.5});
  }
  return examples;
}

TEST_F(TrainerTest, LibTorchAndInferenceAgree) {
  const TrainConfig config = tiny_config();
  const auto weights = embedded::initial_weights(shape_of(config), vocabulary(), 3);
  const auto examples = sampled(config, weights, environment(), 12);
  const auto torch = learner(config, weights);
  const Batch batch(examples);
  const auto log_p = torch->log_p(batch, 1).value();
  std::size_t at = 0;
  for (const Example& example : examples) {
    for (std::size_t t = 0; t < example.output.tokens.size(); ++t) {
      if (example.output.allowed[t].size() < 2) continue;
      ASSERT_NEAR(log_p[at++], example.output.log_p[t], 2e-4);
    }
  }
  EXPECT_EQ(at, log_p.size());
}

TEST_F(TrainerTest, ObjectivesAreTheFormulas) {
  TrainConfig config = tiny_config();
  const auto weights = embedded::initial_weights(shape_of(config), vocabulary(), 3);
  auto other = weights;
  for (std::size_t i = 0; i < other.size(); ++i)
    other[i] += 0.02f * static_cast<float>(std::sin(static_cast<double>(i)));
  const auto examples = sampled(config, weights, environment(), 6);
  Batch batch(examples);
  const auto torch = learner(config, weights);
  ASSERT_TRUE(torch->set_reference(other).ok());
  const auto now = torch->log_p(batch, 1).value();
  const auto reference = learner(config, other)->log_p(batch, 1).value();
  auto old = now;
  for (std::size_t i = 0; i < old.size(); ++i) old[i] += 0.4f * static_cast<float>(std::cos(static_cast<double>(i)));
  batch.set_old_log_p(old);

  // -min(r A, clip(r) A) + kl (e^d - d - 1), the mean over a sequence's targets, summed, over the divisor.
  const auto& view = batch.view();
  std::vector<double> sums(6, 0), counts(6, 0);
  double kl_mean = 0, clipped = 0;
  for (int t = 0; t < view.targets; ++t) {
    const auto i = static_cast<std::size_t>(t);
    const double ratio = std::exp(static_cast<double>(now[i]) - static_cast<double>(old[i])),
                 a = static_cast<double>(view.advantage[t]);
    const double bounded = std::min(std::max(ratio, 0.8), 1.2);
    const double d = static_cast<double>(reference[i]) - static_cast<double>(now[i]);
    const double kl = std::exp(d) - d - 1;
    kl_mean += kl / view.targets;
    clipped += (ratio != bounded ? 1.0 : 0.0) / view.targets;
    sums[static_cast<std::size_t>(view.sequence[t])] += -std::min(ratio * a, bounded * a) + 0.3 * kl;
    ++counts[static_cast<std::size_t>(view.sequence[t])];
  }
  double expected = 0;
  for (std::size_t s = 0; s < 6; ++s) expected += sums[s] / counts[s] / 6;
  config.contrastive.clip = 0.2;
  config.contrastive.kl = 0.3;
  const auto report = torch->step(batch, clipped_objective(config, 6, 0)).value();
  EXPECT_NEAR(report.loss, expected, 1e-4);
  EXPECT_NEAR(report.kl, kl_mean, 1e-4);
  EXPECT_NEAR(report.clipped_share, clipped, 0.02);
  EXPECT_GT(clipped, 0.1);

  WarpsmithTorchObjective likelihood{};
  likelihood.kind = WARPSMITH_TORCH_LIKELIHOOD;
  likelihood.divisor = 4;
  likelihood.temperature = 1;
  double sum = 0;
  for (const float value : now) sum -= static_cast<double>(value);
  EXPECT_NEAR(torch->step(batch, likelihood).value().loss, sum / 4, 1e-3);
}

TEST_F(TrainerTest, StepsLowerTheLossAndRaiseWhatHasAdvantage) {
  TrainConfig config = tiny_config();
  const auto weights = embedded::initial_weights(shape_of(config), vocabulary(), 3);
  const auto examples = sampled(config, weights, environment(), 9);
  Batch batch(examples);
  const auto torch = learner(config, weights);
  const auto before = torch->log_p(batch, 1).value();
  batch.set_old_log_p(before);
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(torch->step(batch, clipped_objective(config, 9, 1e-3)).ok());
  const auto after = torch->log_p(batch, 1).value();
  double better = 0, worse = 0;
  for (int t = 0; t < batch.view().targets; ++t) {
    const double change = static_cast<double>(after[static_cast<std::size_t>(t)]) -
                          static_cast<double>(before[static_cast<std::size_t>(t)]);
    (batch.view().advantage[t] > 0 ? better : worse) += change;
  }
  EXPECT_GT(better, 0);
  EXPECT_LT(worse, better);

  WarpsmithTorchObjective likelihood{};
  likelihood.kind = WARPSMITH_TORCH_LIKELIHOOD;
  likelihood.divisor = static_cast<double>(batch.targets());
  likelihood.temperature = 1;
  likelihood.learning_rate = 5e-3;
  const double first = torch->step(batch, likelihood).value().loss;
  double last = first;
  for (int i = 0; i < 30; ++i) last = torch->step(batch, likelihood).value().loss;
  EXPECT_LT(last, 0.7 * first);
}

TEST_F(TrainerTest, ALossThatIsNotFiniteChangesNothing) {
  const TrainConfig config = tiny_config();
  const auto weights = embedded::initial_weights(shape_of(config), vocabulary(), 3);
  auto examples = sampled(config, weights, environment(), 2);
  examples[0].weight = std::nan("");
  const Batch batch(examples);
  const auto torch = learner(config, weights);
  WarpsmithTorchObjective likelihood{};
  likelihood.kind = WARPSMITH_TORCH_LIKELIHOOD;
  likelihood.divisor = 1;
  likelihood.temperature = 1;
  likelihood.learning_rate = 1;
  const auto report = torch->step(batch, likelihood);
  ASSERT_FALSE(report.ok());
  EXPECT_NE(report.error().message.find("not finite"), std::string::npos) << report.error().message;
  EXPECT_EQ(torch->weights().value(), weights);
}

TEST_F(TrainerTest, AllStagesRunLearnAndLeaveTheirFiles) {
  TrainConfig config = tiny_config();
  config.supervised.steps = 40;
  const auto summary = run(options("whole", config));
  ASSERT_TRUE(summary.ok()) << summary.error().message;
  EXPECT_TRUE(summary->finished);
  EXPECT_EQ(summary->stage, "contrastive");
  ASSERT_EQ(rows_.size(), 48u);
  EXPECT_LT(rows_[39].at("loss").get<double>(), 0.8 * rows_[0].at("loss").get<double>());
  for (std::size_t i = 40; i < rows_.size(); ++i) EXPECT_EQ(rows_[i].at("legal_fraction"), 1.0) << rows_[i].dump();
  const auto& last = rows_.back();
  for (const char* key :
       {"reward_mean", "kl", "entropy", "best_fraction", "clipped_share", "difference", "length", "measurements"}) {
    EXPECT_TRUE(last.contains(key)) << key;
  }
  for (const char* name :
       {"checkpoint.safetensors", "model.safetensors", "log.jsonl", "config.json", "MODEL_CARD.md"}) {
    EXPECT_TRUE(std::filesystem::exists(directory_ / "whole" / name)) << name;
  }
  const auto model = embedded::load_model(directory_ / "whole" / "model.safetensors", vocabulary());
  ASSERT_TRUE(model.ok()) << model.error().message;
  EXPECT_EQ(model->metadata.at("stage"), "contrastive 4");
  EXPECT_EQ(model->metadata.at("held_out").size(), 12u);

  // What exists is not overwritten.
  const auto again = run(options("whole", config));
  ASSERT_FALSE(again.ok());
  EXPECT_EQ(again.error().kind, ErrorKind::bad_input);
  EXPECT_NE(again.error().message.find("--resume"), std::string::npos);
}

// Stopped by steps at awkward places, also between checkpoints after a kill (whose work is lost and done again).
TEST_F(TrainerTest, ResumesBitForBit) {
  const TrainConfig config = tiny_config();
  const auto whole = run(options("whole", config));
  ASSERT_TRUE(whole.ok()) << whole.error().message;

  TrainOptions parts = options("parts", config);
  parts.stop_after = 5;
  ASSERT_TRUE(run(parts).ok());
  parts.resume = true;
  for (int i = 0; i < 10; ++i) {
    const std::string kept = bytes(parts.output / "checkpoint.safetensors");
    if (i == 2) {  // a part that was killed before it could save
      ASSERT_TRUE(run(parts).ok());
      ASSERT_TRUE(write_file_atomic(parts.output / "checkpoint.safetensors", kept).ok());
    }
    const auto summary = run(parts);
    ASSERT_TRUE(summary.ok()) << summary.error().message;
    if (summary->finished) break;
  }
  EXPECT_TRUE(bytes(directory_ / "whole" / "model.safetensors") == bytes(directory_ / "parts" / "model.safetensors"));
  const auto first = load_checkpoint(directory_ / "whole" / "checkpoint.safetensors").value();
  const auto second = load_checkpoint(directory_ / "parts" / "checkpoint.safetensors").value();
  EXPECT_TRUE(first.learner.weights == second.learner.weights);
  EXPECT_TRUE(first.learner.moments == second.learner.moments);
  EXPECT_EQ(first.pools, second.pools);
  EXPECT_EQ(first.measurements, second.measurements);
  const auto lines = [&](const std::string& name) {
    const std::string text = bytes(directory_ / name / "log.jsonl");
    return std::count(text.begin(), text.end(), '\n');
  };
  EXPECT_EQ(lines("whole"), 20);
  EXPECT_EQ(lines("parts"), 20);
}

TEST_F(TrainerTest, RefusesDamagedForeignAndOtherCheckpoints) {
  TrainConfig config = tiny_config();
  TrainOptions all = options("run", config);
  all.stop_after = 2;
  ASSERT_TRUE(run(all).ok());
  all.resume = true;
  const auto path = all.output / "checkpoint.safetensors";
  const std::string whole = bytes(path);
  const auto refused = [&](const std::string& content, const std::string& expected) {
    ASSERT_TRUE(write_file_atomic(path, content).ok());
    const auto result = run(all);
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.error().kind, ErrorKind::bad_input);
    EXPECT_NE(result.error().message.find(expected), std::string::npos) << result.error().message;
    EXPECT_TRUE(bytes(path) == content);  // nothing was overwritten
  };
  refused(whole.substr(0, whole.size() / 2), "checkpoint.safetensors");
  refused("hello", "too short");
  std::string other = whole;
  const std::size_t at = other.find(vocabulary().version());
  ASSERT_NE(at, std::string::npos);
  other[at] = other[at] == '0' ? '1' : '0';
  refused(other, "recipe version");
  std::string nan = whole;
  for (std::size_t i = nan.size() - 400; i < nan.size(); ++i) nan[i] = '\xff';
  refused(nan, "not finite");

  ASSERT_TRUE(write_file_atomic(path, whole).ok());
  all.config.contrastive.kl = 0.5;
  const auto changed = run(all);
  ASSERT_FALSE(changed.ok());
  EXPECT_NE(changed.error().message.find("/contrastive/kl"), std::string::npos) << changed.error().message;
  all.output = directory_ / "nothing";
  EXPECT_FALSE(run(all).ok());
}

TEST_F(TrainerTest, LearnsWithinASearch) {
  TrainConfig config = tiny_config();
  const auto weights = embedded::initial_weights(shape_of(config), vocabulary(), 3);
  const auto examples = sampled(config, weights, environment(), 8);
  const embedded::LoadedModel model{embedded::Transformer(shape_of(config), weights), &vocabulary(), {}};
  auto in_run = make_in_run_learner(model, config, kModule);
  ASSERT_TRUE(in_run.ok()) << in_run.error().message;
  std::vector<embedded::Lesson> lessons;
  for (std::size_t i = 0; i < examples.size(); ++i) {
    lessons.push_back({examples[i].prompt, examples[i].output,
                       i % 2 == 0 ? std::optional(2.0 + static_cast<double>(i)) : std::nullopt});
  }
  const auto learnt = (*in_run)->learn(lessons, 2);
  ASSERT_TRUE(learnt.ok()) << learnt.error().message;
  EXPECT_NE(*learnt, weights);
}

TEST(TrainerWithoutLibTorch, SaysWhatIsMissing) {
  const auto learner = Learner::open(shape_of(tiny_config()), tiny_config(), "/nonexistent/warpsmith-torch.so");
  ASSERT_FALSE(learner.ok());
  EXPECT_EQ(learner.error().kind, ErrorKind::environment);
}

}  // namespace
}  // namespace warpsmith::train
