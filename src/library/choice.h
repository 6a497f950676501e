// Which kernel runs a problem: the exact wisdom entry, that of a near one or what the performance model ranks first,
// whichever is expected to be faster, or cuBLASLt. Entries are whole recipes; knobs of different entries are never
// mixed.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "library/wisdom_index.h"
#include "problem/machine.h"
#include "problem/problem.h"
#include "recipe/recipe.h"
#include "warpsmith/hgemm.h"

namespace warpsmith::library {

enum class ChoiceSource { wisdom_exact, wisdom_nearest, model, cublaslt };
const char* to_string(ChoiceSource source);

// One way to run a problem.
struct Choice {
  ChoiceSource source = ChoiceSource::cublaslt;
  std::optional<Recipe> recipe;  // none: cuBLASLt runs it
  bool dependent = false;        // launched so that it may begin while the kernel before it still runs
  double expected_us = 0;        // measured for the matched problem, or the model's estimate; 0: unknown
  std::string matched;           // the wisdom entry's problem, in text form; empty: no entry
  double distance = 0;           // to that problem
  std::string baseline;          // of the entry: the fastest baseline, its time and its own setting
  double baseline_us = 0;
  std::string baseline_setting;  // "algo 66 tile 20 ...": which of cuBLASLt's algorithms was the fastest
};

// A recipe with the time that a model expects.
struct RankedRecipe {
  Recipe recipe;
  double expected_us = 0;
};

// What ranks legal recipes without measurements of the problem.
class Ranking {
 public:
  virtual ~Ranking() = default;
  // Best first, at most `count`; empty when no family takes the problem.
  virtual std::vector<RankedRecipe> rank(const Problem& problem, const Machine& machine, std::size_t count) const = 0;
  // Expected time of one recipe that is legal for the problem, us; 0: it is of no family that can be judged.
  virtual double estimate_us(const Recipe& recipe, const Problem& problem, const Machine& machine) const = 0;
};

// The performance model, or null where this build has none.
std::unique_ptr<Ranking> model_ranking();

// How unlike two problems are for a kernel's speed: the Euclidean length of the base-2 logarithms of m, n and k's
// ratios (1: one of them doubled), plus 0.05 where one is scaled and the other is not, 0.05 where one is packed and the
// other is not, 0.1 where the elements differ. Nothing where layout or accumulator differ: not comparable.
std::optional<double> problem_distance(const Problem& x, const Problem& y);

inline constexpr double kNearestLimit = 1.0;     // entries farther away than this say nothing about a problem
inline constexpr std::size_t kMostTried = 3;     // own kernels that are named before cuBLASLt
inline constexpr std::size_t kMostWeighed = 16;  // entries, the nearest ones, whose recipes are weighed by the model

class Chooser {
 public:
  // of_other_sizes: as if nothing had been measured for the problem's m, n and k, to judge such choices by what has
  // been.
  enum class Entries { all, of_other_sizes };

  // wisdom and ranking may be null. With WARPSMITH_SHARING_ANY no kernel is chosen whose blocks wait for blocks that
  // may not have begun.
  Chooser(Machine machine, std::shared_ptr<const WisdomIndex> wisdom, std::shared_ptr<const Ranking> ranking,
          warpsmith_sharing_t sharing = WARPSMITH_SHARING_EQUAL);

  // In order of preference, at least one: the first whose kernel can be had runs the problem. cuBLASLt is always among
  // them; what stands behind it is for machines that lack it.
  std::vector<Choice> choose(const Problem& problem, warpsmith_mode_t mode,
                             warpsmith_launch_t launch = WARPSMITH_LAUNCH_PLAIN, Entries entries = Entries::all) const;

  const Machine& machine() const { return machine_; }

 private:
  struct Near {
    double distance;
    std::size_t index;
  };
  struct Use {
    warpsmith_mode_t mode;
    warpsmith_launch_t launch;
  };
  struct Weighed {
    std::vector<Choice> choices;
    // Of the entries that have a baseline: logarithms of the baseline's time over ours, their sum and their number.
    double log_ratios = 0;
    int compared = 0;
    std::optional<Choice> cublaslt;  // with the words of the nearest of these
  };
  std::vector<Near> near(const Problem& problem, Entries entries) const;
  bool decides(const Near& near, const Problem& problem, Use use) const;
  bool shares(const Recipe& recipe) const;
  bool runs(const Recipe& recipe, const Problem& problem) const;
  Weighed weigh(const Problem& problem, const std::vector<Near>& around, Use use) const;
  std::vector<Choice> by_distance(const Problem& problem, const std::vector<Near>& around, Use use) const;
  std::vector<Choice> by_expectation(const Problem& problem, const std::vector<Near>& around, Use use) const;

  Machine machine_;
  std::shared_ptr<const WisdomIndex> wisdom_;
  std::shared_ptr<const Ranking> ranking_;
  warpsmith_sharing_t sharing_;
};

}  // namespace warpsmith::library
