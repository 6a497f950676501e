// Made-up kernel families and run times, so that policies can be judged without a device.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "policy/policy.h"
#include "policy/rng.h"

namespace warpsmith::testing {

inline KnobField field(std::string name, std::vector<int> values) {
  const int middle = values[values.size() / 2];
  return {std::move(name), std::move(values), middle, {}};
}

inline Knob knob(KnobField only) { return {only.name, "a knob", {only}}; }

// Shaped like a real family: tiles that must fit a memory, stages, ordered and unordered switches. About a quarter of
// 564,480 recipes are legal.
inline const Family& gemm_like_family() {
  static const Family family = [] {
    Family made;
    made.name = "made-up";
    made.meaning = "a made-up family";
    made.knobs = {{"tile",
                   "a tile",
                   {field("tile_m", {16, 32, 64, 96, 128, 192, 256}), field("tile_n", {16, 32, 64, 96, 128, 192, 256}),
                    field("tile_k", {16, 32, 64, 128})}},
                  knob(field("stages", {1, 2, 3, 4, 5, 6})),
                  knob(field("warps", {1, 2, 4, 8})),
                  knob(field("split", {1, 2, 4, 8})),
                  knob(field("raster", {1, 2, 4, 8, 16})),
                  knob(field("unroll", {1, 2, 4})),
                  knob(field("swap", {0, 1}))};
    made.rules = {
        {"memory", "stages fit the memory", false,
         [](const Recipe& r, const Problem*, const Machine&) -> std::optional<std::string> {
           const int bytes = 2 * r.get("tile_k") * (r.get("tile_m") + r.get("tile_n")) * r.get("stages");
           if (bytes > 65'536) return std::to_string(bytes) + " bytes";
           return std::nullopt;
         }},
        {"warps", "every warp has between 512 and 4096 elements", false,
         [](const Recipe& r, const Problem*, const Machine&) -> std::optional<std::string> {
           const int each = r.get("tile_m") * r.get("tile_n") / r.get("warps");
           if (each < 512 || each > 4096) return std::to_string(each) + " elements";
           return std::nullopt;
         }},
        {"split", "the problem's k covers every split", true,
         [](const Recipe& r, const Problem* problem, const Machine&) -> std::optional<std::string> {
           if (problem->k < r.get("tile_k") * r.get("split") * 2) return "k is too small";
           return std::nullopt;
         }},
        {"divides", "tile_m divides into warps of 16 rows, or the tile is swapped", false,
         [](const Recipe& r, const Problem*, const Machine&) -> std::optional<std::string> {
           if (r.get("swap") == 0 && r.get("tile_m") % (16 * r.get("warps")) != 0) return "tile_m";
           return std::nullopt;
         }},
    };
    made.starting_points = [](const Problem&, const Machine&) { return std::vector<Recipe>{}; };
    return made;
  }();
  return family;
}

// Smooth in the tile sizes (in powers of two), with interactions, an optimum that depends on `variant`, a value that
// never works, and switches worth some per cent each.
inline std::optional<double> run_time(const Recipe& recipe, std::uint64_t variant) {
  const auto log2_of = [&](const char* name) { return std::log2(static_cast<double>(recipe.get(name))); };
  const auto pick = [&](std::uint64_t salt, int count) {
    return static_cast<double>(mix64(variant * 16 + salt) % static_cast<std::uint64_t>(count));
  };
  if (recipe.get("stages") == 1 + static_cast<int>(pick(9, 2))) return std::nullopt;
  const double area = log2_of("tile_m") + log2_of("tile_n"), aspect = log2_of("tile_m") - log2_of("tile_n");
  double time_us = 10;
  time_us *= 1 + 0.08 * std::pow(area - (11 + pick(1, 4)), 2);
  time_us *= 1 + 0.05 * std::pow(aspect - (pick(2, 3) - 1), 2);
  time_us *= 1 + 0.06 * std::pow(log2_of("split") - pick(3, 4) + 0.3 * (area - 12), 2);
  time_us *= 1 + 0.04 * std::pow(recipe.get("stages") - (3 + pick(4, 3)) + (log2_of("tile_k") - 5), 2);
  time_us *= 1 + 0.03 * std::abs(log2_of("raster") - pick(5, 5));
  time_us *= 1 + 0.05 * std::abs(log2_of("unroll") - pick(6, 3)) * (recipe.get("swap") == 0 ? 1.0 : 0.5);
  time_us *= 1 + 0.04 * std::abs(log2_of("warps") - pick(7, 4));
  time_us *= recipe.get("swap") == static_cast<int>(pick(8, 2)) ? 1 : 1.05;
  return time_us;
}

inline PolicyContext make_context(std::uint64_t seed, std::vector<const Family*> families = {&gemm_like_family()}) {
  PolicyContext context;
  context.problem = {.m = 512, .n = 512, .k = 512};
  context.machine.kind = "cpu";
  context.families = std::move(families);
  context.seed = seed;
  return context;
}

// What is told of a recipe: its time with some per cent of noise, repeatable for a given `noise`.
inline Outcome measure(const Recipe& recipe, std::uint64_t variant, Rng& noise) {
  const auto time_us = run_time(recipe, variant);
  if (!time_us) return {std::nullopt, "wrong"};
  return {*time_us * (1 + 0.03 * noise.unit()), "accepted"};
}

// Fastest true time found in `trials`, asking up to `parallel` ahead of the verdicts.
inline double search(Policy& policy, std::uint64_t variant, int trials, int parallel = 2) {
  Rng noise(variant + 99);
  double best_us = 1e9;
  std::vector<Recipe> asked;
  for (int trial = 0; trial < trials; ++trial) {
    while (static_cast<int>(asked.size()) < parallel) {
      const auto recipe = policy.ask();
      if (!recipe) break;
      asked.push_back(*recipe);
    }
    if (asked.empty()) break;
    const Recipe recipe = asked.front();
    asked.erase(asked.begin());
    if (const auto time_us = run_time(recipe, variant)) best_us = std::min(best_us, *time_us);
    policy.tell(recipe, measure(recipe, variant, noise));
  }
  return best_us;
}

}  // namespace warpsmith::testing
