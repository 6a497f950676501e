// The stages.
#include "train/trainer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <future>
#include <optional>
#include <thread>

#include "base/file.h"
#include "train/checkpoint.h"
#include "train/course.h"
#include "train/learner.h"

namespace warpsmith::train {

namespace {

using Clock = std::chrono::steady_clock;

// Steps draw from generators of their own, so that a run resumes without a generator's state.
Rng step_rng(std::uint64_t seed, std::size_t stage, int step, std::uint64_t part = 0) {
  return Rng(mix64(seed ^ mix64(stage * 0x100000001ULL + static_cast<std::uint64_t>(step))) ^ mix64(part));
}

double warmed(double learning_rate, int step, int warmup) {
  return warmup > 0 ? learning_rate * std::min(1.0, (step + 1.0) / warmup) : learning_rate;
}

struct Spread {
  double low = 0, median = 0, high = 0;
};
Spread spread(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  return {values.front(), values[values.size() / 2], values.back()};
}
nlohmann::json to_json(const Spread& s) { return {{"min", s.low}, {"median", s.median}, {"max", s.high}}; }

// Outputs for one problem, and what became of them.
struct Group {
  std::size_t index = 0;  // of the problem in the course
  embedded::Prompt prompt;
  std::vector<embedded::Proposal> proposals;
  std::vector<Measured> measured;
};

class Run {
 public:
  Run(const TrainOptions& options, Environment& environment)
      : options_(options), config_(options.config), environment_(environment), course_(environment, options.config) {}

  Status begin();
  Result<TrainSummary> go(const std::function<void(const TrainProgress&)>& on_progress, const std::atomic<bool>& stop);

 private:
  Status start_fresh();
  Status take_up();
  Status check_same_run(const Checkpoint& saved) const;
  Result<nlohmann::json> step(const std::string& stage, std::size_t stage_index);
  Result<nlohmann::json> supervised(Rng rng);
  Result<nlohmann::json> self_supervised(Rng rng);
  Result<nlohmann::json> contrastive(Rng rng);
  Result<std::vector<Group>> sample(std::size_t problems, std::size_t each, double temperature, bool contrast,
                                    Rng& rng);
  Status measure(std::vector<Group>& groups);
  void note(nlohmann::json& row, const std::vector<Group>& groups) const;
  Result<WarpsmithTorchReport> update(const std::vector<Example>& examples, const WarpsmithTorchObjective& objective);
  int steps_of(const std::string& stage) const;
  Status save();
  Status append_log(const nlohmann::json& row);
  Status write_card() const;
  std::filesystem::path file(const char* name) const { return options_.output / name; }

  const TrainOptions& options_;
  const TrainConfig& config_;
  Environment& environment_;
  Course course_;
  const embedded::Vocabulary& vocabulary_ = embedded::Vocabulary::standard();
  std::unique_ptr<Learner> learner_;
  Checkpoint state_;
  std::string log_;  // lines of finished steps
};

Status Run::begin() {
  if (!course_.status()) return course_.status().error();
  if (course_.size() == 0) return bad_input(fmt::format("{} leaves no problem to train on", environment_.name()));
  const bool known = std::filesystem::exists(file("checkpoint.safetensors"));
  if (known && !options_.resume) {
    return bad_input(fmt::format("{} holds a run already; --resume goes on with it, or give another --output",
                                 options_.output.string()));
  }
  if (!known && options_.resume) return bad_input(fmt::format("{} holds no run to resume", options_.output.string()));
  return known ? take_up() : start_fresh();
}

Status Run::start_fresh() {
  state_.shape.vocabulary = vocabulary_.size();
  state_.shape.layers = config_.model.layers;
  state_.shape.width = config_.model.width;
  state_.shape.heads = config_.model.heads;
  state_.shape.hidden = config_.model.hidden;
  if (!options_.start.empty()) {
    auto model = embedded::load_model(options_.start, vocabulary_);
    if (!model) return model.error();
    state_.shape = model->shape;
    state_.learner.weights = std::move(model->weights);
  } else {
    state_.learner.weights = embedded::initial_weights(state_.shape, vocabulary_, config_.seed);
  }
  auto learner = Learner::open(state_.shape, config_, options_.module);
  if (!learner) return learner.error();
  learner_ = std::move(*learner);
  state_.learner.moments.assign(2 * state_.learner.weights.size(), 0.0f);
  state_.reference = state_.learner.weights;
  state_.stage = options_.stages.front();
  state_.config = to_json(config_);
  state_.environment = environment_.name();
  if (const Status status = learner_->set_state(state_.learner); !status) return status.error();
  if (const Status status = write_file_atomic(file("config.json"), state_.config.dump(2) + "\n"); !status)
    return status.error();
  if (const Status status = write_file_atomic(file("log.jsonl"), ""); !status) return status.error();
  return learner_->set_reference(state_.reference);
}

// Settings that change how fast a run goes, not what it does, may differ.
Status Run::check_same_run(const Checkpoint& saved) const {
  nlohmann::json before = saved.config, now = to_json(config_);
  for (const char* free : {"device", "threads", "checkpoint_interval"}) {
    before.erase(free);
    now.erase(free);
  }
  if (before != now) {
    const nlohmann::json difference = nlohmann::json::diff(before, now);
    return bad_input(fmt::format("{} was begun with another configuration ({} differs); resume with its config.json",
                                 options_.output.string(), difference.at(0).at("path").get<std::string>()));
  }
  if (saved.environment != environment_.name()) {
    return bad_input(fmt::format("{} was begun in environment {}, and this is {}", options_.output.string(),
                                 saved.environment, environment_.name()));
  }
  return ok_status();
}

Status Run::take_up() {
  auto saved = load_checkpoint(file("checkpoint.safetensors"));
  if (!saved) return saved.error();
  if (const Status status = check_same_run(*saved); !status) return status.error();
  state_ = std::move(*saved);
  auto learner = Learner::open(state_.shape, config_, options_.module);
  if (!learner) return learner.error();
  learner_ = std::move(*learner);
  if (const Status status = learner_->set_state(state_.learner); !status) return status.error();
  if (const Status status = learner_->set_reference(state_.reference); !status) return status.error();
  if (const Status status = course_.restore_pools(state_.pools); !status) return status.error();
  // What was logged after the checkpoint is done again.
  const auto log = read_file(file("log.jsonl"));
  if (!log) return ok_status();  // it was taken away; a new one begins
  const auto position = [&](const std::string& stage) {
    return std::find(stage_names().begin(), stage_names().end(), stage) - stage_names().begin();
  };
  for (std::size_t at = 0; at < log->size();) {
    const std::size_t end = std::min(log->find('\n', at), log->size());
    const auto row = nlohmann::json::parse(log->substr(at, end - at), nullptr, false);
    const bool kept =
        row.is_object() && (position(row.value("stage", "")) < position(state_.stage) ||
                            (row.value("stage", "") == state_.stage && row.value("step", 0) <= state_.step));
    if (kept) log_ += log->substr(at, end - at) + "\n";
    at = end + 1;
  }
  return write_file_atomic(file("log.jsonl"), log_);
}

int Run::steps_of(const std::string& stage) const {
  if (stage == "supervised") return config_.supervised.steps;
  return stage == "self" ? config_.self.steps : config_.contrastive.steps;
}

Result<TrainSummary> Run::go(const std::function<void(const TrainProgress&)>& on_progress,
                             const std::atomic<bool>& stop) {
  auto current = std::find(options_.stages.begin(), options_.stages.end(), state_.stage);
  if (current == options_.stages.end() || state_.step >= steps_of(state_.stage)) {
    // The checkpoint's stage is over, or not asked for: on with the first that comes after it.
    const auto& names = stage_names();
    const auto at = std::find(names.begin(), names.end(), state_.stage);
    current = std::find_if(options_.stages.begin(), options_.stages.end(),
                           [&](const std::string& stage) { return std::find(names.begin(), names.end(), stage) > at; });
  }
  int done = 0;
  for (; current != options_.stages.end(); ++current) {
    if (*current != state_.stage) {
      state_.stage = *current;
      state_.step = 0;
      auto weights = learner_->weights();
      if (!weights) return weights.error();
      state_.reference = std::move(*weights);
      if (const Status status = learner_->set_reference(state_.reference); !status) return status.error();
    }
    const auto stage_index = static_cast<std::size_t>(std::find(stage_names().begin(), stage_names().end(), *current) -
                                                      stage_names().begin());
    while (state_.step < steps_of(*current)) {
      if (stop.load() || (options_.stop_after > 0 && done == options_.stop_after)) {
        if (const Status status = save(); !status) return status.error();
        return TrainSummary{state_.stage, state_.step, state_.measurements, false};
      }
      const auto start = Clock::now();
      auto row = step(*current, stage_index);
      if (!row) return row.error();
      ++state_.step;
      ++done;
      (*row)["stage"] = *current;
      (*row)["step"] = state_.step;
      (*row)["measurements"] = state_.measurements;
      (*row)["seconds"] = std::chrono::duration<double>(Clock::now() - start).count();
      if (const Status status = append_log(*row); !status) return status.error();
      on_progress({*current, state_.step, steps_of(*current), *row});
      if (state_.step % config_.checkpoint_interval == 0 || state_.step == steps_of(*current)) {
        if (const Status status = save(); !status) return status.error();
      }
    }
  }
  if (const Status status = save(); !status) return status.error();
  return TrainSummary{state_.stage, state_.step, state_.measurements, true};
}

Status Run::save() {
  auto learner = learner_->state();
  if (!learner) return learner.error();
  for (const float weight : learner->weights) {
    if (!std::isfinite(weight)) return failure("a weight is not finite; the last checkpoint stays");
  }
  state_.learner = std::move(*learner);
  state_.pools = course_.pools();
  if (const Status status = save_checkpoint(file("checkpoint.safetensors"), state_); !status) return status.error();
  embedded::Model model{state_.shape, state_.learner.weights, vocabulary_.version(), {}};
  model.metadata = {{"stage", fmt::format("{} {}", state_.stage, state_.step)},
                    {"environment", state_.environment},
                    {"machine", environment_.machine().id()},
                    {"target", std::string(to_string(environment_.target()))},
                    {"reference", environment_.reference_kind()},
                    {"held_out", held_out_digest(environment_, config_.held_out_share)},
                    {"config", state_.config.dump()}};
  if (const Status status = embedded::save_model(file("model.safetensors"), model, embedded::TensorFormat::f32);
      !status) {
    return status.error();
  }
  if (const Status status = write_file_atomic(file("log.jsonl"), log_); !status) return status.error();
  return write_card();
}

// At once, for who follows the run; the file is replaced whole with the next checkpoint.
Status Run::append_log(const nlohmann::json& row) {
  const std::string line = row.dump() + "\n";
  log_ += line;
  std::ofstream out(file("log.jsonl"), std::ios::app);
  out << line << std::flush;
  if (!out) return environment_error(fmt::format("cannot write {}", file("log.jsonl").string()));
  return ok_status();
}

Status Run::write_card() const {
  const auto last = log_.rfind('\n', log_.size() - 2);
  const std::string text = fmt::format(
      "# Model card: embedded recipe policy\n\n"
      "| | |\n|---|---|\n| recipe version | {} |\n| weights | {} (layers {}, width {}, heads {}, hidden {}) |\n"
      "| target | {} |\n| machine | {} |\n| environment | {} |\n| problems trained on | {} |\n| held out | {} |\n"
      "| stage reached | {} step {} |\n| measurements | {} |\n| seed | {} |\n| LibTorch | {} |\n\n"
      "Last row of the log:\n\n```json\n{}```\n\nConfiguration:\n\n```json\n{}\n```\n",
      vocabulary_.version(), state_.learner.weights.size(), state_.shape.layers, state_.shape.width, state_.shape.heads,
      state_.shape.hidden, to_string(environment_.target()), environment_.machine().id(), state_.environment,
      course_.size(), held_out_problems(environment_, config_.held_out_share).size(), state_.stage, state_.step,
      state_.measurements, config_.seed, learner_->torch_version(),
      log_.empty() ? "\n" : log_.substr(last == std::string::npos ? 0 : last + 1), state_.config.dump(2));
  return write_file_atomic(file("MODEL_CARD.md"), text);
}

Result<nlohmann::json> Run::step(const std::string& stage, std::size_t stage_index) {
  Rng rng = step_rng(config_.seed, stage_index, state_.step);
  course_.trim();
  if (stage == "supervised") return supervised(std::move(rng));
  if (stage == "self") return self_supervised(std::move(rng));
  return contrastive(std::move(rng));
}

Result<WarpsmithTorchReport> Run::update(const std::vector<Example>& examples,
                                         const WarpsmithTorchObjective& objective) {
  const Batch batch(examples);
  return learner_->step(batch, objective);
}

// Maximum likelihood of winners and legal recipes, per token.
Result<nlohmann::json> Run::supervised(Rng rng) {
  const SupervisedConfig& stage = config_.supervised;
  std::vector<Example> examples;
  for (int i = 0, misses = 0; i < stage.batch && misses < 20 * stage.batch;) {
    auto example = course_.supervised_example(rng);
    if (!example) {
      ++misses;
      continue;
    }
    examples.push_back(std::move(*example));
    ++i;
  }
  if (examples.empty()) return failure("no recipe of the table is legal today: nothing can be taught");
  const Batch batch(examples);
  WarpsmithTorchObjective objective{};
  objective.kind = WARPSMITH_TORCH_LIKELIHOOD;
  objective.divisor = static_cast<double>(std::max<std::size_t>(1, batch.targets()));
  objective.temperature = 1;
  // The rate falls along a half cosine to a tenth.
  const double phase = static_cast<double>(state_.step) / std::max(1, stage.steps);
  const double rate = stage.learning_rate * (0.55 + 0.45 * std::cos(3.14159265358979 * phase));
  objective.learning_rate = warmed(rate, state_.step, config_.optimizer.warmup);
  objective.gradient_norm = config_.optimizer.gradient_norm;
  const auto report = learner_->step(batch, objective);
  if (!report) return report.error();
  return nlohmann::json{{"loss", report->loss},
                        {"entropy", report->entropy},
                        {"gradient_norm", report->gradient_norm},
                        {"examples", examples.size()}};
}

// Outputs of the present weights, problems in parallel; the result does not depend on how they are dealt to threads.
Result<std::vector<Group>> Run::sample(std::size_t problems, std::size_t each, double temperature, bool contrast,
                                       Rng& rng) {
  auto weights = learner_->weights();
  if (!weights) return weights.error();
  const embedded::Transformer model(state_.shape, std::move(*weights));
  std::vector<std::size_t> order(course_.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  rng.shuffle(order);
  order.resize(std::min(problems, order.size()));
  std::vector<Group> groups;
  std::vector<embedded::Grammar*> grammars;
  for (const std::size_t index : order) {
    embedded::Grammar& grammar = course_.grammar(index);
    if (grammar.empty()) continue;
    std::vector<embedded::Exemplar> exemplars;
    if (contrast && !rng.chance(config_.contrastive.bare_share)) {
      exemplars = course_.own_exemplars(index, config_.exemplar_choice(), rng);
    }
    Group group;
    group.index = index;
    group.prompt = course_.prompt(index, std::move(exemplars));
    groups.push_back(std::move(group));
    grammars.push_back(&grammar);
  }
  std::vector<Rng> generators;
  for (std::size_t g = 0; g < groups.size(); ++g) generators.emplace_back(rng.bits());
  const auto work = [&](std::size_t g) {
    embedded::Proposer proposer(model, vocabulary_, *grammars[g], groups[g].prompt);
    for (std::size_t i = 0; i < each; ++i) groups[g].proposals.push_back(proposer.sample(temperature, generators[g]));
  };
  const std::size_t threads = std::max<std::size_t>(
      1, config_.threads > 0 ? static_cast<std::size_t>(config_.threads) : std::thread::hardware_concurrency());
  std::vector<std::future<void>> workers;
  for (std::size_t t = 0; t < threads; ++t) {
    workers.push_back(std::async(std::launch::async, [&, t] {
      for (std::size_t g = t; g < groups.size(); g += threads) work(g);
    }));
  }
  for (auto& worker : workers) worker.get();
  return groups;
}

// A recipe that two outputs of a group share is measured once.
Status Run::measure(std::vector<Group>& groups) {
  for (Group& group : groups) {
    std::vector<Recipe> distinct;
    std::vector<std::size_t> which;
    for (const auto& proposal : group.proposals) {
      const auto found = std::find(distinct.begin(), distinct.end(), proposal.recipe);
      which.push_back(static_cast<std::size_t>(found - distinct.begin()));
      if (found == distinct.end()) distinct.push_back(proposal.recipe);
    }
    const auto results =
        environment_.measure(course_.problem(group.index), distinct, course_.best_known_us(group.index));
    if (!results) return results.error();
    state_.measurements += static_cast<std::int64_t>(distinct.size());
    for (const std::size_t i : which) group.measured.push_back((*results)[i]);
    for (std::size_t i = 0; i < distinct.size(); ++i) {
      const Measured& result = (*results)[i];
      if (result.time_us) course_.add_to_pool(group.index, distinct[i], *result.time_us);
    }
  }
  return ok_status();
}

void Run::note(nlohmann::json& row, const std::vector<Group>& groups) const {
  double accepted = 0, legal = 0, outputs = 0, speedups = 0, fraction = 0, best = 0;
  std::vector<double> differences, lengths;
  std::map<std::string, int> kinds;
  for (const Group& group : groups) {
    const double best_us = course_.best_known_us(group.index), reference_us = course_.reference_us(group.index);
    double fastest_us = 0;
    for (std::size_t i = 0; i < group.measured.size(); ++i) {
      const Measured& measured = group.measured[i];
      ++outputs;
      ++kinds[measured.kind];
      lengths.push_back(static_cast<double>(group.proposals[i].output.tokens.size()));
      const Recipe& recipe = group.proposals[i].recipe;
      legal += is_legal(recipe, course_.problem(group.index), environment_.machine()) ? 1 : 0;
      if (!measured.time_us) continue;
      ++accepted;
      differences.push_back(measured.difference);
      speedups += reference_us / *measured.time_us;
      fraction += best_us / *measured.time_us;
      if (fastest_us == 0 || *measured.time_us < fastest_us) fastest_us = *measured.time_us;
    }
    best += fastest_us > 0 ? best_us / fastest_us : 0;
  }
  if (outputs == 0) return;
  row["legal_fraction"] = legal / outputs;
  row["accepted_fraction"] = accepted / outputs;
  row["mean_speedup"] = speedups / outputs;
  row["mean_fraction_of_best"] = fraction / outputs;
  row["best_fraction"] = best / static_cast<double>(groups.size());
  row["verdicts"] = kinds;
  row["difference"] = to_json(spread(std::move(differences)));
  row["length"] = to_json(spread(std::move(lengths)));
}

// REINFORCE with reward 1 for what passed the gates and 0 for the rest, without a baseline: the likelihood of the
// first.
Result<nlohmann::json> Run::self_supervised(Rng rng) {
  const SelfSupervisedConfig& stage = config_.self;
  auto groups = sample(static_cast<std::size_t>(stage.problems), static_cast<std::size_t>(stage.samples),
                       stage.temperature, false, rng);
  if (!groups) return groups.error();
  if (const Status status = measure(*groups); !status) return status.error();
  std::vector<Example> examples;
  std::size_t outputs = 0;
  for (const Group& group : *groups) {
    for (std::size_t i = 0; i < group.proposals.size(); ++i, ++outputs) {
      if (group.measured[i].time_us) examples.push_back({group.prompt, group.proposals[i].output, 1, 0});
    }
  }
  nlohmann::json row;
  note(row, *groups);
  row["reward_mean"] = outputs == 0 ? 0.0 : static_cast<double>(examples.size()) / static_cast<double>(outputs);
  if (examples.empty()) return row;
  WarpsmithTorchObjective objective{};
  objective.kind = WARPSMITH_TORCH_LIKELIHOOD;
  // Sequences are summed whole, as REINFORCE has it, and averaged over all outputs.
  objective.divisor = static_cast<double>(outputs);
  objective.temperature = stage.temperature;
  objective.learning_rate = warmed(stage.learning_rate, state_.step, config_.optimizer.warmup);
  objective.gradient_norm = config_.optimizer.gradient_norm;
  const auto report = update(examples, objective);
  if (!report) return report.error();
  row["loss"] = report->loss;
  row["entropy"] = report->entropy;
  row["gradient_norm"] = report->gradient_norm;
  return row;
}

Result<nlohmann::json> Run::contrastive(Rng rng) {
  const ContrastiveConfig& stage = config_.contrastive;
  auto groups = sample(static_cast<std::size_t>(stage.problems), static_cast<std::size_t>(stage.group),
                       stage.temperature, true, rng);
  if (!groups) return groups.error();
  if (const Status status = measure(*groups); !status) return status.error();
  std::vector<Example> examples;
  RunningMoments all;
  for (const Group& group : *groups) {
    std::vector<double> raw;
    for (std::size_t i = 0; i < group.proposals.size(); ++i) {
      raw.push_back(raw_reward(group.measured[i], course_.reference_us(group.index),
                               group.proposals[i].output.tokens.size(), config_.reward));
      all.add(raw.back());
    }
    const auto advantages =
        advantages_of(raw, state_.rewards[to_string(course_.problem(group.index))], config_.reward.clip);
    for (std::size_t i = 0; i < group.proposals.size(); ++i) {
      examples.push_back({group.prompt, group.proposals[i].output, 1, advantages[i]});
    }
  }
  nlohmann::json row;
  note(row, *groups);
  row["reward_mean"] = all.mean;
  row["reward_deviation"] = all.deviation();
  if (examples.empty()) return row;
  Batch batch(examples);
  auto old = learner_->log_p(batch, stage.temperature);
  if (!old) return old.error();
  batch.set_old_log_p(std::move(*old));
  auto objective =
      clipped_objective(config_, examples.size(), warmed(stage.learning_rate, state_.step, config_.optimizer.warmup));
  WarpsmithTorchReport last{};
  for (int i = 0; i < stage.updates; ++i) {
    const auto report = learner_->step(batch, objective);
    if (!report) return report.error();
    last = *report;
  }
  row["loss"] = last.loss;
  row["kl"] = last.kl;
  row["entropy"] = last.entropy;
  row["gradient_norm"] = last.gradient_norm;
  row["clipped_share"] = last.clipped_share;
  return row;
}

}  // namespace

const std::vector<std::string>& stage_names() {
  static const std::vector<std::string> kNames = {"supervised", "self", "contrastive"};
  return kNames;
}

std::vector<double> advantages_of(const std::vector<double>& raw, RunningMoments& moments, double clip) {
  for (const double reward : raw) moments.add(reward);
  std::vector<double> smooth;
  for (const double reward : raw) smooth.push_back(smoothed(reward, moments, clip));
  return group_advantages(smooth);
}

WarpsmithTorchObjective clipped_objective(const TrainConfig& config, std::size_t sequences, double learning_rate) {
  WarpsmithTorchObjective objective{};
  objective.kind = WARPSMITH_TORCH_CLIPPED;
  objective.divisor = static_cast<double>(std::max<std::size_t>(1, sequences));
  objective.temperature = config.contrastive.temperature;
  objective.clip = config.contrastive.clip;
  objective.kl = config.contrastive.kl;
  objective.entropy = config.contrastive.entropy;
  objective.learning_rate = learning_rate;
  objective.gradient_norm = config.optimizer.gradient_norm;
  return objective;
}

Result<TrainSummary> train(const TrainOptions& options, Environment& environment,
                           const std::function<void(const TrainProgress&)>& on_progress,
                           const std::atomic<bool>& stop) {
  Run run(options, environment);
  if (const Status status = run.begin(); !status) return status.error();
  return run.go(on_progress, stop);
}

}  // namespace warpsmith::train
