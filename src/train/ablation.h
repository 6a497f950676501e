// The evaluation harness: policies side by side on held-out problems of a recorded table, equal budgets, several seeds.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "policy/embedded/model_policy.h"
#include "report/statistics.h"
#include "train/config.h"
#include "train/environment.h"

namespace warpsmith::train {

// What an arm is asked on. Every proposal is one of `space`: what was declared and measured.
struct AblationTask {
  Problem problem;
  const Machine* machine = nullptr;
  Target target = Target::cpu;
  std::vector<Recipe> space;
  std::vector<embedded::Exemplar> neighbours;  // of training problems, for the model's first prompt
  std::vector<Recipe> nearest;                 // winners of training problems, the nearest problem's first
  double reference_us = 0;
};

// A policy confined to the space, ready to be asked; null when the arm does not apply.
using ArmMaker = std::function<std::unique_ptr<Policy>(const AblationTask& task, std::uint64_t seed)>;
struct Arm {
  std::string name;
  ArmMaker make;
};

// "random": any recipe of the space. "evolution": its proposals, each moved to the nearest recipe of the space that was
// not tried. "start": the families' starting points, likewise. "nearest": winners of the nearest training problems,
// likewise. "performance-model": src/model's order of the space.
Result<Arm> built_in_arm(const std::string& name);
// estimate: the performance model has a say in which of the model's outputs are proposed.
Arm model_arm(const std::string& name, std::shared_ptr<const embedded::LoadedModel> model,
              embedded::ExemplarChoice exemplars, const embedded::BucketOptions& buckets, bool estimate = false);
std::vector<std::string> built_in_arm_names();

inline const std::vector<int> kAblationCounts = {1, 4, 16, 64, 256};

struct AblationRow {
  std::string arm;
  int seed = 0;
  std::string problem;
  int n = 0;
  double fraction_of_best = 0;  // best known time over the fastest accepted among the first n; 0: none accepted
};

struct AblationOptions {
  std::vector<Arm> arms;
  int seeds = 5, first_seed = 1;  // consecutive ones
  double held_out_share = 0.12;
  // Held-out problems with fewer recorded recipes are left out, and those whose declared space was not measured whole.
  std::size_t smallest_space = 1500;
  int threads = 0;  // 0: all
};

struct Ablation {
  std::vector<AblationRow> rows;
  std::size_t problems = 0;
  std::vector<std::string> left_out;                           // each with what it lacks
  std::size_t smallest = 0, largest = 0;                       // spaces
  std::map<std::string, std::map<std::string, int>> verdicts;  // by arm: what its proposals turned out to be
};

Result<Ablation> run_ablation(const AblationOptions& options, Environment& environment,
                              const std::function<void(double)>& on_progress);

std::string ablation_csv(const std::vector<AblationRow>& rows);
Result<std::vector<AblationRow>> read_ablation_csv(const std::filesystem::path& path);

// By arm and n: mean and geometric mean over problems of the mean over seeds, each with its bootstrap interval; and by
// pair of arms the paired bootstrap of the difference of means.
struct ArmFigure {
  double mean = 0, geometric_mean = 0;  // geometric mean: 0 where a problem has none accepted
  stats::Interval interval, geometric_interval;
  int problems = 0;
};
struct AblationSummary {
  std::vector<std::string> arms;  // best at n = 1 first
  std::map<std::string, std::map<int, ArmFigure>> figures;
  std::map<std::pair<std::string, std::string>, std::map<int, stats::PairedDifference>> differences;
};
Result<AblationSummary> summarise(const std::vector<AblationRow>& rows);
std::string summary_markdown(const AblationSummary& summary);
nlohmann::json summary_json(const AblationSummary& summary);

}  // namespace warpsmith::train
