// The families' candidates, merged, made different from one another, and proved legal.
#include "model/rank.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "model/candidates.h"

namespace warpsmith::model {

namespace {

constexpr std::size_t kAlike = 2;  // of the same tile and split

// Sets knobs by name; false when a value is none of the knob's.
class RecipeWriter {
 public:
  explicit RecipeWriter(const Family& family) : recipe_(family), fields_(family.fields()) {}

  void set(std::string_view name, int value) {
    const auto field =
        std::find_if(fields_.begin(), fields_.end(), [&](const KnobField* each) { return each->name == name; });
    possible_ = possible_ && field != fields_.end();
    if (!possible_) return;
    const auto& values = (*field)->values;
    const auto found = std::find(values.begin(), values.end(), value);
    possible_ = found != values.end();
    if (!possible_) return;
    recipe_.set_choice(static_cast<std::size_t>(field - fields_.begin()), static_cast<int>(found - values.begin()));
  }
  Recipe& recipe() { return recipe_; }
  std::optional<Recipe> take() && { return possible_ ? std::optional(std::move(recipe_)) : std::nullopt; }

 private:
  Recipe recipe_;
  std::vector<const KnobField*> fields_;
  bool possible_ = true;
};

void write(const Sm90Knobs& k, RecipeWriter& writer) {
  for (const auto& [name, value] : std::initializer_list<std::pair<std::string_view, int>>{{"tile_m", k.tile_m},
                                                                                           {"tile_n", k.tile_n},
                                                                                           {"tile_k", k.tile_k},
                                                                                           {"cluster_m", k.cluster_m},
                                                                                           {"cluster_n", k.cluster_n},
                                                                                           {"split", k.split},
                                                                                           {"stages", k.stages},
                                                                                           {"consumers", k.consumers},
                                                                                           {"raster", k.raster},
                                                                                           {"group", k.group},
                                                                                           {"streamk", k.streamk},
                                                                                           {"pingpong", k.pingpong},
                                                                                           {"persistent", k.persistent},
                                                                                           {"epilogue", k.epilogue},
                                                                                           {"swap", k.swap},
                                                                                           {"staging", k.staging}}) {
    writer.set(name, value);
  }
}

void write(const Sm80Knobs& k, const char* loop, RecipeWriter& writer) {
  for (const auto& [name, value] : std::initializer_list<std::pair<std::string_view, int>>{{"tile_m", k.tile_m},
                                                                                           {"tile_n", k.tile_n},
                                                                                           {"tile_k", k.tile_k},
                                                                                           {"warps_m", k.warps_m},
                                                                                           {"warps_n", k.warps_n},
                                                                                           {"warps_k", k.warps_k},
                                                                                           {"stages", k.stages},
                                                                                           {"split", k.split},
                                                                                           {"reduce", k.reduce},
                                                                                           {"raster", k.raster},
                                                                                           {"group", k.group},
                                                                                           {"epilogue", k.epilogue}}) {
    writer.set(name, value);
  }
  set_sm80_loop(writer.recipe(), loop);
}

void write_direct(const DirectKnobs& k, bool tiny, RecipeWriter& writer) {
  if (tiny) {
    writer.set("tile_m", k.tile_m);
    writer.set("tile_n", k.tile_n);
    writer.set("warps_m", k.warps_m);
    writer.set("warps_n", k.warps_n);
    writer.set("b", k.shared_b ? 1 : 0);
  } else {
    writer.set("tile_rows", k.rows());
    writer.set("warps_rows", k.groups());
  }
  writer.set("tile_k", k.tile_k);
  writer.set("warps_k", k.warps_k);
  writer.set("split", k.split);
  writer.set("ahead", k.ahead);
}

std::optional<Recipe> recipe_of(const Candidate& candidate) {
  RecipeWriter writer(*candidate.family);
  if (const auto* sm90 = std::get_if<Sm90Knobs>(&candidate.knobs)) {
    write(*sm90, writer);
  } else if (const auto* sm80 = std::get_if<Sm80Knobs>(&candidate.knobs)) {
    write(*sm80, candidate.loop, writer);
  } else {
    write_direct(std::get<DirectKnobs>(candidate.knobs), candidate.family == &tiny_family(), writer);
  }
  return std::move(writer).take();
}

// Picks from candidates, fastest first.
class Selection {
 public:
  Selection(const Setting& setting, std::size_t count) : setting_(setting), count_(count) {}

  bool full() const { return chosen_.size() >= count_; }
  // most: candidates of one family's way of working.
  void offer(const Candidate& candidate, std::size_t most) {
    const auto way = std::pair(candidate.family, candidate.mode);
    const auto shape = std::tuple(candidate.family, candidate.mode, candidate.shape);
    if (full() || ways_[way] >= most || shapes_[shape] >= kAlike) return;
    // The same time is that of a mirror image, or differs in what the model does not see.
    auto& times = times_[way];
    if (times.count(candidate.time_us)) return;
    std::optional<Recipe> recipe = recipe_of(candidate);
    if (!recipe || !is_legal(*recipe, setting_.problem, setting_.machine)) return;
    const auto same = [&](const Ranked& other) { return other.recipe == *recipe; };
    if (std::any_of(chosen_.begin(), chosen_.end(), same)) return;
    ++ways_[way];
    ++shapes_[shape];
    times.insert(candidate.time_us);
    Estimate time = estimate(*recipe, setting_.problem, setting_.machine, setting_.coefficients);
    chosen_.push_back({std::move(*recipe), std::move(time)});
  }

  std::vector<Ranked> take() && {
    std::stable_sort(chosen_.begin(), chosen_.end(),
                     [](const Ranked& x, const Ranked& y) { return x.estimate.time_us < y.estimate.time_us; });
    return std::move(chosen_);
  }

 private:
  const Setting& setting_;
  std::size_t count_;
  std::vector<Ranked> chosen_;
  std::map<std::pair<const Family*, int>, std::size_t> ways_;
  std::map<std::pair<const Family*, int>, std::set<double>> times_;
  std::map<std::tuple<const Family*, int, std::array<int, 4>>, std::size_t> shapes_;
};

}  // namespace

std::vector<Ranked> rank(const Problem& problem, const Machine& machine, Target target, std::size_t count,
                         const Coefficients& coefficients) {
  const Setting setting(problem, machine, coefficients);
  std::vector<Candidate> found;
  for (const Family* family : families_for(target)) {
    if (family == &sm90_family()) add_sm90_candidates(setting, found);
    if (family == &sm80_family()) add_sm80_candidates(setting, found);
    if (family == &tiny_family()) add_tiny_candidates(setting, found);
    if (family == &skinny_family()) add_skinny_candidates(setting, found);
  }
  std::vector<const Candidate*> order;
  for (const Candidate& candidate : found) order.push_back(&candidate);
  std::stable_sort(order.begin(), order.end(),
                   [](const Candidate* x, const Candidate* y) { return x->time_us < y->time_us; });
  Selection selection(setting, count);
  // One way of working gets half of the places at most, as long as there are others.
  for (const std::size_t most : {std::max<std::size_t>(1, count / 2), count}) {
    for (const Candidate* candidate : order) {
      if (selection.full()) break;
      selection.offer(*candidate, most);
    }
  }
  return std::move(selection).take();
}

std::vector<Ranked> rank(const Problem& problem, const Machine& machine, Target target, std::size_t count) {
  return rank(problem, machine, target, count, coefficients_for(machine));
}

}  // namespace warpsmith::model
