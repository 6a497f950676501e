// Machines, problems and random recipes for tests over all families.
#pragma once

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "problem/machine.h"
#include "problem/problem.h"
#include "recipe/recipe.h"

namespace warpsmith::testing {

inline Machine make_cpu(bool avx512, int threads) {
  Machine machine;
  machine.name = "Test CPU";
  machine.kind = "cpu";
  machine.units = threads;
  machine.avx2 = true;
  machine.avx512 = avx512;
  machine.l1_bytes = 32 << 10;
  machine.l2_bytes = 1 << 20;
  machine.l3_bytes = 32 << 20;
  return machine;
}

inline Machine make_gpu(std::string name, int compute_capability, int units, std::int64_t smem_bytes_per_block) {
  Machine machine;
  machine.name = std::move(name);
  machine.kind = "cuda";
  machine.compute_capability = compute_capability;
  machine.units = units;
  machine.smem_bytes_per_block = smem_bytes_per_block;
  machine.registers_per_unit = 65'536;
  machine.l2_bytes = 40 << 20;
  return machine;
}

// Machines that the family is made for.
inline std::vector<Machine> machines_for(const Family& family) {
  const Machine hopper = make_gpu("Hopper", 90, 132, 232'448), ampere = make_gpu("Ampere", 80, 108, 166'912);
  switch (family.target) {
    case Target::cpu:
      return {make_cpu(false, 1), make_cpu(true, 1), make_cpu(true, 2), make_cpu(false, 16)};
    case Target::sm90:
      return {hopper};
    case Target::sm80:
      return {ampere, hopper};
  }
  return {};
}

// Whether the family is made for such a size at all.
inline bool fits(const Family& family, const Shape& shape) {
  if (family.name == "tiny") return shape.m * shape.n <= 1 << 18 && shape.k <= 8192;
  if (family.name == "skinny") return std::min(shape.m, shape.n) <= 32;
  return true;
}

// Square, ragged, tiny, skinny and long; sm90 and sm80 get k and n in multiples of 8.
inline std::vector<Problem> problems_for(const Family& family) {
  std::vector<Shape> shapes = {{64, 64, 64},     {128, 128, 32},     {4096, 4096, 4096}, {1024, 1024, 4096},
                               {64, 4096, 64},   {16, 4096, 4096},   {4096, 16, 4096},   {48, 48, 8192},
                               {257, 136, 1000}, {100, 336, 72},     {1, 4096, 4096},    {8, 8, 8},
                               {1, 8, 8},        {333, 8, 16384},    {16384, 16384, 64}, {640, 40, 640},
                               {32, 2048, 128},  {12288, 64, 12288}, {65, 72, 80},       {5, 1048, 24}};
  if (family.target == Target::cpu || family.name == "tiny" || family.name == "skinny") {
    for (const Shape shape :
         {Shape{1, 1, 1}, {100, 333, 77}, {257, 129, 1000}, {96, 96, 96}, {3, 5, 7}, {1, 4097, 1}}) {
      shapes.push_back(shape);
    }
  }
  std::vector<Problem> problems;
  for (const Shape& shape : shapes) {
    if (!fits(family, shape)) continue;
    for (const Layout layout : {Layout::nn, Layout::tn}) {
      problems.push_back({.m = shape.m, .n = shape.n, .k = shape.k, .layout = layout});
    }
  }
  return problems;
}

inline Recipe random_recipe(const Family& family, std::mt19937_64& random) {
  Recipe recipe(family);
  const auto fields = family.fields();
  for (std::size_t i = 0; i < fields.size(); ++i) {
    recipe.set_choice(i, static_cast<int>(random() % fields[i]->values.size()));
  }
  return recipe;
}

struct FamilyName {
  std::string operator()(const ::testing::TestParamInfo<const Family*>& info) const { return info.param->name; }
};

}  // namespace warpsmith::testing
