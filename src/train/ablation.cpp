// Arms, runs and summaries.
#include "train/ablation.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <future>
#include <mutex>
#include <set>
#include <thread>

#include "base/file.h"
#include "base/text.h"
#include "model/estimate.h"
#include "policy/evolution.h"
#include "search/starting_points.h"
#include "train/course.h"

namespace warpsmith::train {

namespace {

// Recipes of a declared space that were not tried yet.
class Untried {
 public:
  explicit Untried(const std::vector<Recipe>& space)
      : space_(space), tried_(space.size(), false), left_(space.size()) {}

  bool empty() const { return left_ == 0; }
  void mark(const Recipe& recipe) {
    for (std::size_t i = 0; i < space_.size(); ++i) {
      if (!tried_[i] && space_[i] == recipe) {
        tried_[i] = true;
        --left_;
      }
    }
  }

  // The nearest by steps along the fields, each as a share of the field's range; of the same family where one is left.
  std::optional<Recipe> nearest(const Recipe& wanted) const {
    double least = 0;
    const Recipe* chosen = nullptr;
    std::vector<double> ranges;
    for (const KnobField* field : wanted.family().fields()) ranges.push_back(static_cast<double>(field->values.size()));
    for (std::size_t i = 0; i < space_.size(); ++i) {
      if (tried_[i]) continue;
      const double away = distance(space_[i], wanted, ranges);
      if (chosen != nullptr && away >= least) continue;
      least = away;
      chosen = &space_[i];
    }
    return chosen == nullptr ? std::nullopt : std::optional(*chosen);
  }

  std::optional<Recipe> any(Rng& rng) const {
    if (left_ == 0) return std::nullopt;
    std::size_t at = rng.index(left_);
    for (std::size_t i = 0; i < space_.size(); ++i) {
      if (!tried_[i] && at-- == 0) return space_[i];
    }
    return std::nullopt;
  }

 private:
  static double distance(const Recipe& a, const Recipe& b, const std::vector<double>& ranges) {
    if (&a.family() != &b.family()) return 1e6;
    double sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (a.choice(i) == b.choice(i)) continue;
      sum += 0.5 + std::abs(a.choice(i) - b.choice(i)) / ranges[i];
    }
    return sum;
  }

  const std::vector<Recipe>& space_;
  std::vector<bool> tried_;
  std::size_t left_;
};

// A list of wishes, each moved to the nearest untried recipe of the space; then anything.
class ListPolicy : public Policy {
 public:
  ListPolicy(std::string name, const AblationTask& task, std::vector<Recipe> wishes, std::uint64_t seed)
      : name_(std::move(name)), untried_(task.space), wishes_(std::move(wishes)), rng_(seed) {}
  std::string_view name() const override { return name_; }
  std::optional<Recipe> ask() override {
    auto recipe = next_ < wishes_.size() ? untried_.nearest(wishes_[next_++]) : untried_.any(rng_);
    if (recipe) untried_.mark(*recipe);
    return recipe;
  }
  void tell(const Recipe&, const Outcome&) override {}

 private:
  std::string name_;
  Untried untried_;
  std::vector<Recipe> wishes_;
  std::size_t next_ = 0;
  Rng rng_;
};

PolicyContext context_of(const AblationTask& task, std::uint64_t seed) {
  PolicyContext context;
  context.problem = task.problem;
  context.machine = *task.machine;
  context.seed = seed;
  context.reference_us = task.reference_us;
  for (const Recipe& recipe : task.space) {
    const Family* family = &recipe.family();
    if (std::find(context.families.begin(), context.families.end(), family) == context.families.end()) {
      context.families.push_back(family);
    }
  }
  return context;
}

// Where a search begins, the performance model's ranks among them.
std::vector<Recipe> starts_of(const AblationTask& task) {
  const auto families = context_of(task, 0).families;
  std::vector<Recipe> starts = find_starting_points(task.problem, *task.machine, task.target).all();
  std::erase_if(starts, [&](const Recipe& recipe) {
    return std::find(families.begin(), families.end(), &recipe.family()) == families.end();
  });
  return starts;
}

// Evolution searches the legal recipes; what is measured, and what it is told of, is the nearest of the space.
class ConfinedEvolution : public Policy {
 public:
  ConfinedEvolution(const AblationTask& task, std::uint64_t seed) : untried_(task.space), rng_(seed ^ 0x65766f) {
    PolicyContext context = context_of(task, seed);
    context.starting_points = starts_of(task);
    evolution_ = std::make_unique<EvolutionPolicy>(std::move(context));
  }
  std::string_view name() const override { return "evolution"; }
  std::optional<Recipe> ask() override {
    const auto wish = evolution_->ask();
    auto recipe = wish ? untried_.nearest(*wish) : untried_.any(rng_);
    if (recipe) untried_.mark(*recipe);
    return recipe;
  }
  void tell(const Recipe& recipe, const Outcome& outcome) override { evolution_->tell(recipe, outcome); }

 private:
  Untried untried_;
  Rng rng_;
  std::unique_ptr<EvolutionPolicy> evolution_;
};

std::vector<Recipe> by_performance_model(const AblationTask& task) {
  std::vector<std::pair<double, Recipe>> ranked;
  for (const Recipe& recipe : task.space) {
    if (!model::covers(recipe.family()) || !is_legal(recipe, task.problem, *task.machine)) continue;
    ranked.emplace_back(model::estimate(recipe, task.problem, *task.machine).time_us, recipe);
  }
  std::stable_sort(ranked.begin(), ranked.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Recipe> order;
  for (auto& [time_us, recipe] : ranked) order.push_back(std::move(recipe));
  return order;
}

// The models' arm: confined by its mask.
std::unique_ptr<Policy> confined_model(const AblationTask& task, std::uint64_t seed,
                                       const std::shared_ptr<const embedded::LoadedModel>& model,
                                       embedded::ExemplarChoice exemplars, const embedded::BucketOptions& buckets,
                                       bool estimate) {
  embedded::ModelPolicyOptions options;
  options.model_share = 1;
  options.exemplars = exemplars;
  options.buckets = buckets;
  options.neighbours = task.neighbours;
  options.space = task.space;
  PolicyContext context = context_of(task, seed);
  if (estimate) context.expected_us = expected_times(task.problem, *task.machine);
  return std::make_unique<embedded::ModelPolicy>(std::move(context), model, options);
}

struct Prepared {
  AblationTask task;
  double best_us = 0;
};

}  // namespace

std::vector<std::string> built_in_arm_names() {
  return {"random", "evolution", "start", "nearest", "performance-model"};
}

Result<Arm> built_in_arm(const std::string& name) {
  if (name == "random") {
    return Arm{name, [](const AblationTask& task, std::uint64_t seed) -> std::unique_ptr<Policy> {
                 return std::make_unique<ListPolicy>("random", task, std::vector<Recipe>(), seed);
               }};
  }
  if (name == "evolution") {
    return Arm{name, [](const AblationTask& task, std::uint64_t seed) -> std::unique_ptr<Policy> {
                 return std::make_unique<ConfinedEvolution>(task, seed);
               }};
  }
  if (name == "start") {
    return Arm{name, [](const AblationTask& task, std::uint64_t seed) -> std::unique_ptr<Policy> {
                 return std::make_unique<ListPolicy>("start", task, starts_of(task), seed);
               }};
  }
  if (name == "nearest") {
    return Arm{name, [](const AblationTask& task, std::uint64_t seed) -> std::unique_ptr<Policy> {
                 return std::make_unique<ListPolicy>("nearest", task, task.nearest, seed);
               }};
  }
  if (name == "performance-model") {
    return Arm{name, [](const AblationTask& task, std::uint64_t seed) -> std::unique_ptr<Policy> {
                 auto order = by_performance_model(task);
                 if (order.empty()) return nullptr;
                 return std::make_unique<ListPolicy>("performance-model", task, std::move(order), seed);
               }};
  }
  return bad_input(fmt::format("unknown arm '{}'; accepted: {}, NAME=MODEL_FILE", printable(name),
                               fmt::join(built_in_arm_names(), ", ")));
}

Arm model_arm(const std::string& name, std::shared_ptr<const embedded::LoadedModel> model,
              embedded::ExemplarChoice exemplars, const embedded::BucketOptions& buckets, bool estimate) {
  return {name, [model = std::move(model), exemplars, buckets, estimate](const AblationTask& task, std::uint64_t seed) {
            return confined_model(task, seed, model, exemplars, buckets, estimate);
          }};
}

namespace {

// One arm on one problem with one seed. Verdicts are counted by kind.
Result<std::vector<AblationRow>> run_arm(const Arm& arm, const Prepared& prepared, int seed, Environment& environment,
                                         std::map<std::string, int>& verdicts) {
  const AblationTask& task = prepared.task;
  const auto policy = arm.make(task, static_cast<std::uint64_t>(seed));
  std::vector<AblationRow> rows;
  if (!policy) return rows;
  double fastest_us = 0;
  for (int n = 1; n <= kAblationCounts.back(); ++n) {
    const bool more = n <= static_cast<int>(task.space.size());  // no recipe is asked for twice
    if (const auto recipe = more ? policy->ask() : std::nullopt) {
      const auto measured = environment.measure(task.problem, {*recipe}, fastest_us);
      if (!measured) return measured.error();
      const Measured& result = measured->front();
      ++verdicts[result.kind == "failed" ? "outside" : result.kind];
      policy->tell(*recipe, {result.time_us, result.kind});
      if (result.time_us && (fastest_us == 0 || *result.time_us < fastest_us)) fastest_us = *result.time_us;
    }
    if (std::find(kAblationCounts.begin(), kAblationCounts.end(), n) == kAblationCounts.end()) continue;
    rows.push_back({arm.name, seed, to_string(task.problem), n, fastest_us > 0 ? prepared.best_us / fastest_us : 0});
  }
  return rows;
}

}  // namespace

Result<Ablation> run_ablation(const AblationOptions& options, Environment& environment,
                              const std::function<void(double)>& on_progress) {
  TrainConfig config;
  config.held_out_share = options.held_out_share;
  const Course course(environment, config);
  if (!course.status()) return course.status().error();
  std::vector<Problem> training;
  for (std::size_t i = 0; i < course.size(); ++i) training.push_back(course.problem(i));
  Ablation ablation;
  std::vector<Prepared> tasks;
  for (const Problem& problem : held_out_problems(environment, options.held_out_share)) {
    const auto known = environment.known(problem);
    auto space = environment.space(problem);
    const std::size_t needed = std::max(options.smallest_space, environment.declared(problem));
    if (known.empty() || space.size() < needed) {
      ablation.left_out.push_back(fmt::format("{}: {} of {} recipes", to_string(problem), space.size(), needed));
      continue;
    }
    const auto reference_us = environment.reference_us(problem);
    if (!reference_us) return reference_us.error();
    Prepared prepared{{problem,
                       &environment.machine(),
                       environment.target(),
                       std::move(space),
                       course.neighbours_of(problem),
                       {},
                       *reference_us},
                      known.front().time_us};
    for (const std::size_t i : nearest(problem, training, 32)) {
      if (!course.known(i).empty()) prepared.task.nearest.push_back(course.known(i).front().recipe);
    }
    const std::size_t size = prepared.task.space.size();
    ablation.smallest = ablation.problems == 0 ? size : std::min(ablation.smallest, size);
    ablation.largest = std::max(ablation.largest, size);
    ++ablation.problems;
    tasks.push_back(std::move(prepared));
  }
  if (tasks.empty()) {
    return bad_input(fmt::format("{} holds no problem out with at least {} recorded recipes", environment.name(),
                                 options.smallest_space));
  }
  struct Job {
    const Arm* arm;
    const Prepared* task;
    int seed;
  };
  std::vector<Job> jobs;
  for (const Arm& arm : options.arms) {
    for (const Prepared& task : tasks) {
      for (int i = 0; i < options.seeds; ++i) jobs.push_back({&arm, &task, options.first_seed + i});
    }
  }
  std::vector<std::vector<AblationRow>> results(jobs.size());
  std::optional<Error> error;
  std::mutex mutex;
  std::size_t next = 0;
  const auto work = [&] {
    for (;;) {
      std::size_t mine = 0;
      {
        const std::lock_guard lock(mutex);
        if (next == jobs.size() || error) return;
        mine = next++;
        on_progress(static_cast<double>(mine) / static_cast<double>(jobs.size()));
      }
      std::map<std::string, int> verdicts;
      auto rows = run_arm(*jobs[mine].arm, *jobs[mine].task, jobs[mine].seed, environment, verdicts);
      const std::lock_guard lock(mutex);
      if (!rows) {
        error = rows.error();
        return;
      }
      results[mine] = std::move(*rows);
      for (const auto& [kind, count] : verdicts) ablation.verdicts[jobs[mine].arm->name][kind] += count;
    }
  };
  const unsigned threads =
      options.threads > 0 ? static_cast<unsigned>(options.threads) : std::max(1U, std::thread::hardware_concurrency());
  std::vector<std::future<void>> workers;
  for (unsigned i = 0; i < threads; ++i) workers.push_back(std::async(std::launch::async, work));
  for (auto& worker : workers) worker.get();
  if (error) return *error;
  for (auto& rows : results) std::move(rows.begin(), rows.end(), std::back_inserter(ablation.rows));
  return ablation;
}

std::string ablation_csv(const std::vector<AblationRow>& rows) {
  std::string text = "arm,seed,problem,n,fraction_of_best\n";
  for (const AblationRow& row : rows) {
    text += fmt::format("{},{},\"{}\",{},{:.6f}\n", row.arm, row.seed, row.problem, row.n, row.fraction_of_best);
  }
  return text;
}

Result<std::vector<AblationRow>> read_ablation_csv(const std::filesystem::path& path) {
  const auto text = read_file(path);
  if (!text) return text.error();
  std::vector<AblationRow> rows;
  std::size_t number = 0;
  for (std::size_t at = 0; at < text->size();) {
    const std::size_t end = std::min(text->find('\n', at), text->size());
    std::string line = text->substr(at, end - at);
    at = end + 1;
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (++number == 1 || line.empty()) continue;
    std::erase(line, '"');
    std::vector<std::string> cells = {""};
    for (const char c : line) {
      if (c == ',')
        cells.emplace_back();
      else
        cells.back() += c;
    }
    // A problem with leading dimensions has commas of its own.
    while (cells.size() > 5) {
      cells[2] += "," + cells[3];
      cells.erase(cells.begin() + 3);
    }
    AblationRow row;
    const auto number_of = [](const std::string& cell, auto& value) {
      return std::from_chars(cell.data(), cell.data() + cell.size(), value).ec == std::errc();
    };
    if (cells.size() != 5 || !number_of(cells[1], row.seed) || !number_of(cells[3], row.n) ||
        !number_of(cells[4], row.fraction_of_best)) {
      return bad_input(fmt::format("{}:{}: expected arm,seed,problem,n,fraction_of_best", path.string(), number));
    }
    row.arm = cells[0];
    row.problem = cells[2];
    rows.push_back(std::move(row));
  }
  return rows;
}

Result<AblationSummary> summarise(const std::vector<AblationRow>& rows) {
  // By arm, n and problem: the mean over seeds.
  std::map<std::string, std::map<int, std::map<std::string, std::pair<double, int>>>> sums;
  for (const AblationRow& row : rows) {
    auto& [sum, count] = sums[row.arm][row.n][row.problem];
    sum += row.fraction_of_best;
    ++count;
  }
  const auto values_of = [&](const std::string& arm, int n) {
    std::map<std::string, double> values;
    for (const auto& [problem, entry] : sums[arm][n]) values[problem] = entry.first / entry.second;
    return values;
  };
  AblationSummary summary;
  for (const auto& [arm, by_n] : sums) {
    summary.arms.push_back(arm);
    for (const auto& [n, ignored] : by_n) {
      std::vector<double> values;
      for (const auto& [problem, value] : values_of(arm, n)) values.push_back(value);
      ArmFigure figure;
      figure.problems = static_cast<int>(values.size());
      figure.mean = stats::mean(values).value();
      figure.interval = {figure.mean, figure.mean};
      if (const auto interval = stats::bootstrap_mean(values)) figure.interval = *interval;
      if (const auto geometric = stats::geometric_mean(values)) {
        figure.geometric_mean = *geometric;
        figure.geometric_interval = {*geometric, *geometric};
        if (const auto interval = stats::bootstrap_geometric_mean(values)) figure.geometric_interval = *interval;
      }
      summary.figures[arm][n] = figure;
    }
  }
  const auto first = [&](const std::string& arm) { return summary.figures[arm].begin()->second.mean; };
  std::stable_sort(summary.arms.begin(), summary.arms.end(),
                   [&](const auto& a, const auto& b) { return first(a) > first(b); });
  for (const std::string& a : summary.arms) {
    for (const std::string& b : summary.arms) {
      if (a == b) continue;
      for (const auto& [n, ignored] : sums[a]) {
        const auto left = values_of(a, n), right = values_of(b, n);
        std::vector<double> x, y;
        for (const auto& [problem, value] : left) {
          const auto found = right.find(problem);
          if (found == right.end()) continue;
          x.push_back(value);
          y.push_back(found->second);
        }
        if (const auto difference =
                stats::paired_bootstrap(x, y, stats::mean_of, {2000, 0.95, stats::BootstrapMethod::percentile, 1})) {
          summary.differences[{a, b}][n] = *difference;
        }
      }
    }
  }
  return summary;
}

std::string summary_markdown(const AblationSummary& summary) {
  std::string text =
      "Mean over problems of the fraction of the best known speed after n measurements [95 % bootstrap]\n\n| arm |";
  if (summary.arms.empty()) return text;
  const auto& columns = summary.figures.at(summary.arms.front());
  for (const auto& [n, figure] : columns) text += fmt::format(" n = {} |", n);
  text += "\n|---|";
  for (std::size_t i = 0; i < columns.size(); ++i) text += "---|";
  for (const std::string& arm : summary.arms) {
    text += fmt::format("\n| {} |", arm);
    for (const auto& [n, f] : summary.figures.at(arm)) {
      text += fmt::format(" {:.3f} [{:.3f}, {:.3f}] |", f.mean, f.interval.low, f.interval.high);
    }
  }
  return text + "\n";
}

nlohmann::json summary_json(const AblationSummary& summary) {
  nlohmann::json json = {{"arms", nlohmann::json::object()}, {"differences", nlohmann::json::array()}};
  for (const auto& [arm, by_n] : summary.figures) {
    for (const auto& [n, f] : by_n) {
      json["arms"][arm][std::to_string(n)] = {
          {"mean", f.mean},
          {"interval", {f.interval.low, f.interval.high}},
          {"geometric_mean", f.geometric_mean},
          {"geometric_interval", {f.geometric_interval.low, f.geometric_interval.high}},
          {"problems", f.problems}};
    }
  }
  for (const auto& [pair, by_n] : summary.differences) {
    for (const auto& [n, d] : by_n) {
      json["differences"].push_back({{"first", pair.first},
                                     {"second", pair.second},
                                     {"n", n},
                                     {"difference", d.difference},
                                     {"interval", {d.interval.low, d.interval.high}}});
    }
  }
  return json;
}

}  // namespace warpsmith::train
