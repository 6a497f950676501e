// The policy "model" as a search meets it: legal, never twice, determined, taught by what it is told.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "embedded_machines.h"
#include "policy/embedded/model_policy.h"

namespace warpsmith::embedded {
namespace {

std::shared_ptr<const LoadedModel> model(int width = 32, int layers = 1) {
  const Vocabulary& vocabulary = Vocabulary::standard();
  ModelShape shape;
  shape.vocabulary = vocabulary.size();
  shape.layers = layers;
  shape.width = width;
  shape.heads = 2;
  shape.hidden = 2 * width;
  return std::make_shared<LoadedModel>(
      LoadedModel{Transformer(shape, initial_weights(shape, vocabulary, 1)), &vocabulary, {}});
}

PolicyContext context(const testing::Task& task, std::uint64_t seed) {
  PolicyContext made;
  made.problem = task.problem;
  made.machine = task.machine;
  made.seed = seed;
  for (const Family* family : families_for(task.target)) {
    auto starts = family->starting_points(task.problem, task.machine);
    if (starts.empty()) continue;
    made.families.push_back(family);
    std::move(starts.begin(), starts.end(), std::back_inserter(made.starting_points));
  }
  return made;
}

double time_of(const Recipe& recipe) {
  double time_us = 1;
  for (std::size_t i = 0; i < recipe.size(); ++i) time_us += 0.1 * recipe.choice(i);
  return time_us;
}

std::vector<std::string> run(ModelPolicy& policy, int proposals) {
  std::vector<std::string> texts;
  for (int i = 0; i < proposals; ++i) {
    const auto recipe = policy.ask();
    if (!recipe) break;
    texts.push_back(to_string(*recipe));
    policy.tell(*recipe, i % 7 == 0 ? Outcome{std::nullopt, "wrong"} : Outcome{time_of(*recipe), "accepted"});
  }
  return texts;
}

TEST(ModelPolicy, ProposesLegalRecipesAndNoneTwice) {
  for (const std::size_t which : {0u, 3u}) {
    const auto task = testing::tasks()[which];
    ModelPolicy policy(context(task, 1), model());
    EXPECT_EQ(policy.name(), "model");
    const auto texts = run(policy, 120);
    ASSERT_EQ(texts.size(), 120u);
    std::set<std::string> distinct(texts.begin(), texts.end());
    EXPECT_EQ(distinct.size(), texts.size());
    for (const std::string& text : texts)
      EXPECT_TRUE(is_legal(parse_recipe(text).value(), task.problem, task.machine)) << text;
  }
}

TEST(ModelPolicy, IsDeterminedBySeedAndVerdicts) {
  const auto task = testing::tasks()[3];
  ModelPolicy first(context(task, 5), model()), second(context(task, 5), model()), other(context(task, 6), model());
  const auto texts = run(first, 60);
  EXPECT_EQ(texts, run(second, 60));
  EXPECT_NE(texts, run(other, 60));
}

TEST(ModelPolicy, MakesTheMostOfADeclaredSpace) {
  const auto task = testing::tasks()[3];
  ModelPolicyOptions options;
  options.space = context(task, 1).starting_points;
  options.model_share = 1;
  ModelPolicy policy(context(task, 1), model(), options);
  const auto texts = run(policy, 500);
  std::set<std::string> wanted;
  for (const Recipe& recipe : options.space) wanted.insert(to_string(recipe));
  EXPECT_EQ(std::set<std::string>(texts.begin(), texts.end()), wanted);
  EXPECT_EQ(texts.size(), wanted.size());
  // What is left is drawn by the model to the end: another seed has another order of the last ones too.
  ModelPolicy other(context(task, 2), model(), options);
  const auto others = run(other, 500);
  EXPECT_NE(std::vector<std::string>(texts.end() - 5, texts.end()),
            std::vector<std::string>(others.end() - 5, others.end()));
}

TEST(ModelPolicy, ExpectedTimesHaveASayInWhatIsProposed) {
  const auto task = testing::tasks()[3];
  PolicyContext with = context(task, 1);
  with.expected_us = time_of;
  const auto least = [](const std::vector<Recipe>& recipes) {
    double least_us = time_of(recipes.front());
    for (const Recipe& recipe : recipes) least_us = std::min(least_us, time_of(recipe));
    return least_us;
  };
  ModelPolicyOptions options;
  options.estimate_weight = 1e6;  // the model does not count
  ModelPolicy deaf(with, model(), options);
  EXPECT_LE(time_of(deaf.ask().value()), least(with.starting_points)) << "a start, or a faster one that was written";

  // Of a declared space it goes through all recipes in the order of what is expected.
  options.space = with.starting_points;
  options.model_share = 1;
  ModelPolicy ordered(with, model(), options);
  std::vector<double> times;
  for (const std::string& text : run(ordered, 500)) times.push_back(time_of(parse_recipe(text).value()));
  EXPECT_EQ(times.size(), options.space.size());
  for (std::size_t i = 1; i < times.size(); ++i) EXPECT_LE(times[i - 1], times[i] + 1e-9) << i;

  // Where both count, an expected time that is little longer does not outweigh the model's word.
  with.expected_us = [](const Recipe&) { return 1.0; };
  const Recipe likely = ModelPolicy(with, model(), options).ask().value();
  with.expected_us = [&](const Recipe& recipe) { return recipe == likely ? 1.0001 : 1.0; };
  options.estimate_weight = 1;
  EXPECT_EQ(ModelPolicy(with, model(), options).ask(), likely);
  with.expected_us = [&](const Recipe& recipe) { return recipe == likely ? 100.0 : 1.0; };
  options.estimate_weight = 30;
  EXPECT_NE(ModelPolicy(with, model(), options).ask(), likely);
}

TEST(ModelPolicy, WithoutExpectedTimesNothingChanges) {
  const auto task = testing::tasks()[3];
  ModelPolicy plain(context(task, 5), model());
  const auto texts = run(plain, 40);
  PolicyContext silent = context(task, 5);
  silent.expected_us = [](const Recipe&) { return 0.0; };
  ModelPolicy of_none(silent, model());
  EXPECT_EQ(run(of_none, 40), texts);
  silent.expected_us = time_of;
  ModelPolicyOptions options;
  options.estimate_weight = 0;
  ModelPolicy unheard(silent, model(), options);
  EXPECT_EQ(run(unheard, 40), texts);
}

TEST(ModelPolicy, ProposesLegalRecipesAndNoneTwiceWithExpectedTimes) {
  const auto task = testing::tasks()[0];
  PolicyContext with = context(task, 2);
  with.expected_us = time_of;
  ModelPolicy first(with, model()), second(with, model());
  const auto texts = run(first, 120);
  ASSERT_EQ(texts.size(), 120u);
  EXPECT_EQ(std::set<std::string>(texts.begin(), texts.end()).size(), texts.size());
  for (const std::string& text : texts)
    EXPECT_TRUE(is_legal(parse_recipe(text).value(), task.problem, task.machine)) << text;
  EXPECT_EQ(texts, run(second, 120));
}

TEST(ModelPolicy, IsMadeByName) {
  const auto task = testing::tasks()[0];
  EXPECT_FALSE(make_policy("model", context(task, 1)).ok());
  PolicyContext with = context(task, 1);
  with.model = model();
  EXPECT_EQ(make_policy("model", std::move(with)).value()->name(), "model");
}

class Recorder : public InRunLearner {
 public:
  explicit Recorder(bool fails) : fails_(fails) {}
  Result<std::vector<float>> learn(const std::vector<Lesson>& group, double reference_us) override {
    sizes.push_back(group.size());
    for (const Lesson& lesson : group) {
      EXPECT_EQ(lesson.output.tokens.size(), lesson.output.log_p.size());
      timed += lesson.time_us ? 1 : 0;
    }
    EXPECT_GT(reference_us, 0);
    if (fails_) return failure("no");
    auto weights = model()->transformer.weights();
    for (float& weight : weights) weight *= 1.5f;
    return weights;
  }
  std::vector<std::size_t> sizes;
  int timed = 0;

 private:
  bool fails_;
};

TEST(ModelPolicy, HandsWhatItWasToldToTheLearner) {
  const auto task = testing::tasks()[3];
  for (const bool fails : {false, true}) {
    const auto recorder = std::make_shared<Recorder>(fails);
    PolicyContext with = context(task, 1);
    with.learner = recorder;
    ModelPolicyOptions options;
    options.learn_group = 8;
    ModelPolicy policy(std::move(with), model(), options);
    EXPECT_EQ(run(policy, 60).size(), 60u);
    EXPECT_GE(recorder->sizes.size(), fails ? 1u : 3u);
    for (const std::size_t size : recorder->sizes) EXPECT_EQ(size, 8u);
    EXPECT_GT(recorder->timed, 0);
    EXPECT_EQ(policy.learning_error(), fails ? "no" : "");
    EXPECT_EQ(policy.updates(), fails ? 0 : static_cast<std::int64_t>(recorder->sizes.size()));
  }
}

// Favourites of the expected times are proposed too, and teach nothing; what the model wrote of itself does.
TEST(ModelPolicy, TeachesWhatItWroteWithExpectedTimesToo) {
  const auto recorder = std::make_shared<Recorder>(false);
  PolicyContext with = context(testing::tasks()[3], 1);
  with.expected_us = time_of;
  with.learner = recorder;
  ModelPolicyOptions options;
  options.learn_group = 8;
  ModelPolicy policy(std::move(with), model(), options);
  EXPECT_EQ(run(policy, 60).size(), 60u);
  EXPECT_GE(recorder->sizes.size(), 2u);
  for (const std::size_t size : recorder->sizes) EXPECT_EQ(size, 8u);
  EXPECT_GT(recorder->timed, 0);
}

// Informs; the promise of 10 ms is for a quiet machine.
TEST(ModelPolicy, ProposalTime) {
  const auto task = testing::tasks()[3];
  const auto shipped = std::make_shared<LoadedModel>([] {
    const Vocabulary& vocabulary = Vocabulary::standard();
    ModelShape shape;
    shape.vocabulary = vocabulary.size();
    return LoadedModel{Transformer(shape, initial_weights(shape, vocabulary, 1)), &vocabulary, {}};
  }());
  RuleGrammar grammar(task.problem, task.machine, families_for(task.target), shipped->book);
  const auto starts = context(task, 1).starting_points;
  Rng rng(1);
  double fastest_ms = 1e9;
  for (int i = 0; i < 12; ++i) {
    const auto start = std::chrono::steady_clock::now();
    Proposer proposer(shipped->transformer, *shipped->vocabulary, grammar,
                      make_prompt(*shipped->vocabulary, task.problem, task.machine,
                                  {{starts[0], 1, false}, {starts[1], 0.8, false}}));
    const auto proposal = proposer.sample(1, rng);
    const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    fastest_ms = std::min(fastest_ms, ms);
    EXPECT_TRUE(is_legal(proposal.recipe, task.problem, task.machine));
  }
  RecordProperty("fastest_ms", std::to_string(fastest_ms));
  fmt::print("fastest proposal with two exemplars: {:.2f} ms ({}, {} weights)\n", fastest_ms, arithmetic().name,
             shipped->transformer.weights().size());
  EXPECT_LT(fastest_ms, 200);
}

}  // namespace
}  // namespace warpsmith::embedded
