// Shapes and sm80 recipes that the GPU tests of the family try: every named loop, the best starting points, random
// ones.
#pragma once

#include <algorithm>
#include <atomic>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "codegen/generate.h"
#include "gpu_fixture.h"
#include "recipe/sm80_loop.h"

namespace warpsmith::sm80_pairs {

struct Pair {
  Problem problem;
  Recipe recipe;
};

// `count` pairs, at least 24: every named loop, the best starting points, and random recipes, on shapes of every kind.
inline std::vector<Pair> pairs_for(const Machine& machine, std::size_t count) {
  const std::vector<std::string> shapes = {"64x64x64 tn",
                                           "201x141x77 nn",
                                           "512x512x512 nt bf16",
                                           "1000x1000x1000 tt",
                                           "64x128x4096 nn",
                                           "1x1x1 tn",
                                           "77x136x1000 nt",
                                           "256x256x2048 tn f16 f16",
                                           "4097x3x515 nn",
                                           "1024x768x512 tn",
                                           "96x160x640 nn ld=656,176,168",
                                           "300x200x333 tn f16 f32 scaled"};
  std::vector<Pair> pairs;
  const auto shape = [&](std::size_t i) { return test_problem(shapes[i % shapes.size()]); };
  const auto add = [&](const Problem& problem, const Recipe& recipe) {
    if (is_legal(recipe, problem, machine)) pairs.push_back({problem, recipe});
  };
  std::size_t at = 0;
  for (const KnobPoint& point : sm80_loop_knob().points) {
    Recipe recipe = parse_recipe("sm80 tile=64x64x64 stages=3").value();
    add(shape(at++), set_sm80_loop(recipe, point.name));
  }
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    for (const Recipe& recipe : sm80_family().starting_points(shape(i), machine)) {
      add(shape(i), recipe);
      break;
    }
  }
  std::mt19937_64 random(static_cast<std::uint64_t>(machine.compute_capability));
  const auto fields = sm80_family().fields();
  while (pairs.size() < count) {
    Recipe recipe(sm80_family());
    for (std::size_t f = 0; f < fields.size(); ++f) {
      recipe.set_choice(f, static_cast<int>(random() % fields[f]->values.size()));
    }
    add(shape(random() % shapes.size()), recipe);
  }
  return pairs;
}

// On all cores; the same order as the pairs.
inline std::vector<Result<Artifact>> compile_all(const std::vector<Candidate>& candidates) {
  std::vector<Result<Artifact>> artifacts(candidates.size(), failure("not compiled"));
  std::atomic<std::size_t> next{0};
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < std::max(1u, std::thread::hardware_concurrency()); ++i) {
    threads.emplace_back([&] {
      for (std::size_t at = next++; at < candidates.size(); at = next++) {
        artifacts[at] = test_compiler().compile(candidates[at]);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return artifacts;
}

}  // namespace warpsmith::sm80_pairs
