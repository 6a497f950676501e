// The model: arithmetic, masked decoding, files.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <unistd.h>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/file.h"
#include "embedded_machines.h"
#include "policy/embedded/exemplars.h"
#include "policy/embedded/proposer.h"
#include "policy/embedded/transformer.h"

namespace warpsmith::embedded {
namespace {

const Vocabulary& vocabulary() { return Vocabulary::standard(); }

ModelShape small_shape() {
  ModelShape shape;
  shape.vocabulary = vocabulary().size();
  shape.layers = 2;
  shape.width = 48;
  shape.heads = 3;
  shape.hidden = 96;
  return shape;
}

Transformer small_model(std::uint64_t seed = 1) {
  return Transformer(small_shape(), initial_weights(small_shape(), vocabulary(), seed));
}

std::filesystem::path scratch(const std::string& name) {
  return std::filesystem::path(::testing::TempDir()) / fmt::format("embedded-{}-{}", getpid(), name);
}

TEST(Arithmetic, InstructionSetsAgree) {
  Rng rng(1);
  const auto random = [&](std::size_t count) {
    std::vector<float> values(count);
    for (float& value : values) value = static_cast<float>(rng.unit() - 0.5);
    return values;
  };
  for (const std::size_t rows : {1, 3, 4, 9}) {
    for (const std::size_t columns : {1, 7, 16, 33, 160}) {
      const std::size_t depth = 37;
      const auto x = random(rows * depth), w = random(depth * columns), start = random(rows * columns);
      auto fast = start, plain = start;
      arithmetic().multiply(x.data(), rows, depth, w.data(), columns, fast.data(), true);
      portable_arithmetic().multiply(x.data(), rows, depth, w.data(), columns, plain.data(), true);
      for (std::size_t i = 0; i < fast.size(); ++i) {
        double exact = start[i];
        for (std::size_t k = 0; k < depth; ++k) {
          exact += static_cast<double>(x[i / columns * depth + k]) * static_cast<double>(w[k * columns + i % columns]);
        }
        EXPECT_NEAR(fast[i], exact, 1e-5);
        EXPECT_NEAR(plain[i], exact, 1e-5);
      }
    }
  }
}

TEST(Transformer, TokensOneByOneGiveWhatTokensTogetherGive) {
  const Transformer model = small_model();
  const auto prompt = make_prompt(vocabulary(), {.m = 64, .n = 64, .k = 64}, testing::hopper(), {});
  auto together = model.empty_cache(), apart = model.empty_cache();
  const auto all = model.append(together, prompt.tokens, prompt.segments);
  std::vector<float> last;
  for (std::size_t i = 0; i < prompt.tokens.size(); ++i) {
    last = model.append(apart, std::span(prompt.tokens).subspan(i, 1), std::span(prompt.segments).subspan(i, 1));
  }
  ASSERT_EQ(last.size(), all.size());
  for (std::size_t i = 0; i < all.size(); ++i) EXPECT_NEAR(all[i], last[i], 2e-5);
  EXPECT_EQ(together.length, prompt.tokens.size());
}

TEST(Transformer, StartingEmbeddingsAreSmooth) {
  const Transformer model = small_model();
  const auto distance = [&](int a, int b) {
    double sum = 0;
    for (std::size_t i = 0; i < 48; ++i) {
      const double d =
          model.weights()[static_cast<std::size_t>(a) * 48 + i] - model.weights()[static_cast<std::size_t>(b) * 48 + i];
      sum += d * d;
    }
    return sum;
  };
  const int at = vocabulary().feature(0, 24);
  EXPECT_LT(distance(at, at + 1), distance(at, at + 12));
  EXPECT_GT(distance(at, at + 1), 0);
}

std::vector<Exemplar> two_exemplars(const testing::Task& task) {
  const auto starts = sm90_family().starting_points(task.problem, task.machine);
  return {{starts[0], 0.9, false}, {starts[1], 0.6, false}};
}

TEST(Proposer, LogProbabilitiesAreThoseOfTheMaskedDistribution) {
  const auto task = testing::tasks()[3];
  const Transformer model = small_model();
  RuleGrammar grammar(task.problem, task.machine, families_for(task.target), std::make_shared<ScopeBook>());
  Proposer proposer(model, vocabulary(), grammar,
                    make_prompt(vocabulary(), task.problem, task.machine, two_exemplars(task)));
  Rng rng(1), again(1);
  for (int i = 0; i < 10; ++i) {
    const Proposal proposal = proposer.sample(0.8, rng);
    EXPECT_TRUE(is_legal(proposal.recipe, task.problem, task.machine));
    EXPECT_EQ(proposal.recipe, proposer.sample(0.8, again).recipe);
    const Output& output = proposal.output;
    ASSERT_EQ(output.tokens.size(), output.allowed.size());
    ASSERT_EQ(output.tokens.size(), output.log_p.size());
    ASSERT_EQ(output.tokens.size(), output.analysis_tokens + 2 + proposal.recipe.size());
    double sum = 0;
    for (std::size_t t = 0; t < output.tokens.size(); ++t) {
      const auto& allowed = output.allowed[t];
      EXPECT_NE(std::find(allowed.begin(), allowed.end(), output.tokens[t]), allowed.end());
      EXPECT_LE(output.log_p[t], 0);
      if (allowed.size() == 1) {
        EXPECT_EQ(output.log_p[t], 0);
      }
      sum += static_cast<double>(output.log_p[t]);
    }
    EXPECT_NEAR(proposal.log_p, sum, 1e-4);
    const std::vector<int> analysis(output.tokens.begin(),
                                    output.tokens.begin() + static_cast<std::ptrdiff_t>(output.analysis_tokens));
    EXPECT_NEAR(proposer.log_probability(analysis, proposal.recipe, 0.8), proposal.log_p, 1e-4);
  }
}

TEST(Proposer, ProbabilitiesOfASmallSpaceSumToOne) {
  const auto task = testing::tasks()[3];
  const Transformer model = small_model(5);
  std::vector<Recipe> space;
  for (const Family* family : families_for(task.target)) {
    for (const Recipe& start : family->starting_points(task.problem, task.machine)) space.push_back(start);
  }
  ListGrammar grammar(space);
  Proposer proposer(model, vocabulary(), grammar, make_prompt(vocabulary(), task.problem, task.machine, {}));
  double total = 0, best = -1e9;
  for (const Recipe& recipe : space) {
    const double log_p = proposer.log_probability({}, recipe);
    EXPECT_TRUE(std::isfinite(log_p));
    total += std::exp(log_p);
    best = std::max(best, log_p);
  }
  EXPECT_NEAR(total, 1, 1e-4);
  EXPECT_LE(proposer.greedy().log_p, best + 1e-6);
  EXPECT_EQ(proposer.log_probability({}, Recipe(cpu_family())), -INFINITY);
}

TEST(Proposer, EveryStartingPointHasAProbability) {
  const Transformer model = small_model();
  for (const auto& task : testing::tasks()) {
    RuleGrammar grammar(task.problem, task.machine, families_for(task.target), std::make_shared<ScopeBook>());
    Proposer proposer(model, vocabulary(), grammar, make_prompt(vocabulary(), task.problem, task.machine, {}));
    for (const Family* family : grammar.families()) {
      for (const Recipe& start : family->starting_points(task.problem, task.machine)) {
        EXPECT_GT(proposer.log_probability({}, start), -200) << to_string(start);
      }
    }
  }
}

TEST(Proposer, AnalysisNamesTheKnobsThatDiffer) {
  const auto task = testing::tasks()[3];
  Recipe better(sm90_family()), worse(sm90_family());
  worse.set("tile_n", 64).set("stages", 3);
  const auto prompt =
      make_prompt(vocabulary(), task.problem, task.machine, {{better, 0.9, false}, {worse, 0.5, false}});
  EXPECT_EQ(prompt.exemplars.back().recipe, better);
  const auto analysis = true_analysis(vocabulary(), prompt);
  ASSERT_EQ(analysis.size(), 2u);
  EXPECT_EQ(vocabulary().name(analysis[0]), "sm90.tile_n");
  EXPECT_EQ(vocabulary().name(analysis[1]), "sm90.stages");
  const auto other = make_prompt(vocabulary(), task.problem, task.machine,
                                 {{better, 0.9, false}, {Recipe(sm80_family()), 0.5, false}});
  EXPECT_EQ(true_analysis(vocabulary(), other), (std::vector<int>{vocabulary().encode(better)[0]}));
  EXPECT_TRUE(true_analysis(vocabulary(), make_prompt(vocabulary(), task.problem, task.machine, {{better, 0.9, false}}))
                  .empty());

  RuleGrammar grammar(task.problem, task.machine, families_for(task.target), std::make_shared<ScopeBook>());
  const Recipe target = sm90_family().starting_points(task.problem, task.machine)[0];
  const auto taught = teach(vocabulary(), grammar, prompt, analysis, target);
  ASSERT_TRUE(taught.has_value());
  EXPECT_EQ(taught->analysis_tokens, 2u);
  EXPECT_FALSE(teach(vocabulary(), grammar, prompt, {analysis[1], analysis[0]}, target).has_value());
  Recipe illegal = target;
  illegal.set("stages", 12).set("tile_m", 256).set("tile_n", 256).set("tile_k", 128);
  EXPECT_FALSE(teach(vocabulary(), grammar, prompt, {}, illegal).has_value());
}

TEST(Exemplars, BucketProbabilitiesFollowTheFormula) {
  // Buckets [0.5, 0.6): 0.5, 0.55; [1.0, 1.1): 1.0. Means 0.525 and 1.0; ratio exp(0.475 / 0.2).
  const BucketOptions options{0.1, 0.2};
  const auto probabilities = bucket_probabilities({0.5, 0.55, 1.0}, options);
  ASSERT_EQ(probabilities.size(), 2u);
  EXPECT_EQ(probabilities[0].first, 5);
  EXPECT_NEAR(probabilities[1].second / probabilities[0].second, std::exp(0.475 / 0.2), 1e-9);
  EXPECT_NEAR(probabilities[0].second + probabilities[1].second, 1, 1e-12);

  Rng rng(1);
  int first_fast = 0;
  for (int i = 0; i < 4000; ++i) {
    const auto drawn = draw_by_buckets({0.5, 0.55, 1.0}, 2, options, rng);
    ASSERT_EQ(drawn.size(), 2u);
    EXPECT_TRUE((drawn[0] == 2) != (drawn[1] == 2));  // distinct buckets
    first_fast += drawn[0] == 2 ? 1 : 0;
  }
  EXPECT_NEAR(first_fast / 4000.0, probabilities[1].second, 0.02);
  EXPECT_EQ(draw_by_buckets({0.5, 0.51}, 2, options, rng).size(), 1u);
  EXPECT_TRUE(draw_by_buckets({}, 2, options, rng).empty());
  EXPECT_EQ(draw_by_buckets({0.1, 700, 1400}, 3, options, rng).size(), 3u);  // nothing overflows
}

TEST(ModelFile, SurvivesTheRoundTrip) {
  Model model{
      small_shape(), initial_weights(small_shape(), vocabulary(), 3), vocabulary().version(), {{"stage", "none"}}};
  const auto path = scratch("model.safetensors");
  ASSERT_TRUE(save_model(path, model, TensorFormat::f32).ok());
  const auto exact = load_model(path, vocabulary());
  ASSERT_TRUE(exact.ok()) << exact.error().message;
  EXPECT_EQ(exact->weights, model.weights);
  EXPECT_EQ(exact->shape, model.shape);
  EXPECT_EQ(exact->metadata.at("stage"), "none");
  ASSERT_TRUE(save_model(path, model, TensorFormat::f16).ok());
  const auto half = load_model(path, vocabulary());
  ASSERT_TRUE(half.ok()) << half.error().message;
  for (std::size_t i = 0; i < model.weights.size(); ++i) {
    ASSERT_NEAR(half->weights[i], model.weights[i], 5e-4 * std::fabs(model.weights[i]) + 6e-8);
  }
  std::filesystem::remove(path);
}

TEST(ModelFile, RefusesAnotherRecipeVersionDamageAndNan) {
  Model model{small_shape(), initial_weights(small_shape(), vocabulary(), 3), "0123456789abcdef", {}};
  const auto path = scratch("other.safetensors");
  ASSERT_TRUE(save_model(path, model, TensorFormat::f32).ok());
  const auto other = load_model(path, vocabulary());
  ASSERT_FALSE(other.ok());
  EXPECT_EQ(other.error().kind, ErrorKind::bad_input);
  EXPECT_NE(other.error().message.find("recipe version 0123456789abcdef"), std::string::npos) << other.error().message;

  model.version = vocabulary().version();
  model.weights[100] = NAN;
  ASSERT_TRUE(save_model(path, model, TensorFormat::f32).ok());
  const auto nan = load_model(path, vocabulary());
  ASSERT_FALSE(nan.ok());
  EXPECT_NE(nan.error().message.find("not finite"), std::string::npos) << nan.error().message;

  model.weights[100] = 0;
  ASSERT_TRUE(save_model(path, model, TensorFormat::f32).ok());
  const std::string whole = read_file(path).value();
  Rng rng(2);
  int refused = 0;
  for (int i = 0; i < 60; ++i) {
    std::string damaged = whole;
    if (i % 2 == 0) {
      damaged.resize(rng.index(whole.size()));
    } else {
      for (int edit = 0; edit < 6; ++edit) damaged[rng.index(2000)] = static_cast<char>(rng.bits());
    }
    ASSERT_TRUE(write_file_atomic(path, damaged).ok());
    const auto loaded = load_model(path, vocabulary());
    if (loaded) continue;
    ++refused;
    EXPECT_EQ(loaded.error().kind, ErrorKind::bad_input);
    EXPECT_EQ(loaded.error().message.find('\n'), std::string::npos);
  }
  EXPECT_GE(refused, 50);
  std::filesystem::remove(path);
  EXPECT_EQ(load_model(path, vocabulary()).error().kind, ErrorKind::environment);
}

// A stored vector: two layers of known weights over four tokens, worked out once by an independent implementation
// (python/reference_transformer.py prints it).
TEST(Transformer, MatchesTheGoldenVector) {
  ModelShape shape;
  shape.vocabulary = 11;
  shape.segments = 3;
  shape.layers = 2;
  shape.width = 8;
  shape.heads = 2;
  shape.hidden = 12;
  std::vector<float> weights(parameter_count(shape));
  for (std::size_t i = 0; i < weights.size(); ++i)
    weights[i] = static_cast<float>(0.5 * std::sin(0.37 * static_cast<double>(i) + 0.1));
  const Transformer model(shape, weights);
  const std::vector<int> tokens = {3, 10, 0, 7}, segments = {0, 1, 1, 2};
  auto cache = model.empty_cache();
  const auto output = model.append(cache, tokens, segments);
  const std::vector<double> golden = {0.71866687, 0.63613565, 0.40774090, 0.15294745,
                                      0.00502829, 0.04135444, 0.24292505, 0.50430600};
  ASSERT_EQ(output.size(), golden.size());
  for (std::size_t i = 0; i < golden.size(); ++i) EXPECT_NEAR(output[i], golden[i], 1e-5) << i;
  EXPECT_NEAR(model.logit(output, 4), 0.14309403, 1e-5);
}

}  // namespace
}  // namespace warpsmith::embedded
