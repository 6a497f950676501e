// warpsmith-model-loss: judges the performance model by a replay table, again and again with other coefficients. Made
// for bench/fit_model.py: reads a JSON object a line, {"coefficient": value, ...}, those absent at the machine's
// defaults, and answers each with {"problems": [[best_us, first_us, top_us, expected_us, bias, spread], ...]}. Its
// first line says which problems and coefficients there are.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "model/agreement.h"
#include "search/model_report.h"

namespace {

using namespace warpsmith;

// The fastest half of `most`, and others evenly over the rest: a fit learns little from the thousandth slow recipe.
std::vector<model::Measured> thinned(std::vector<model::Measured> measured, std::size_t most) {
  if (measured.size() <= most) return measured;
  std::stable_sort(measured.begin(), measured.end(),
                   [](const model::Measured& x, const model::Measured& y) { return x.time_us < y.time_us; });
  const std::size_t fastest = most / 2, others = most - fastest, rest = measured.size() - fastest;
  std::vector<model::Measured> kept(measured.begin(), measured.begin() + static_cast<std::ptrdiff_t>(fastest));
  for (std::size_t i = 0; i < others; ++i) kept.push_back(measured[fastest + i * rest / others]);
  return kept;
}

nlohmann::json introduction(const std::vector<model::MeasuredProblem>& problems, const Machine& machine) {
  nlohmann::json json;
  for (const auto& each : problems) {
    const Problem& p = each.problem();
    json["problems"].push_back(
        {{"problem", to_string(p)}, {"m", p.m}, {"n", p.n}, {"k", p.k}, {"recipes", each.size()}});
  }
  const model::Coefficients values = model::coefficients_for(machine), reasoned;
  for (const auto& info : model::coefficient_table()) {
    json["coefficients"].push_back({{"name", info.name},
                                    {"unit", info.unit},
                                    {"value", values.*info.member},
                                    {"reasoned", reasoned.*info.member},
                                    {"least", info.least},
                                    {"most", info.most}});
  }
  json["machine"] = machine.name;
  return json;
}

nlohmann::json answer(const std::string& line, const std::vector<model::MeasuredProblem>& problems,
                      const Machine& machine) {
  const nlohmann::json changes = nlohmann::json::parse(line);
  model::Coefficients coefficients = model::coefficients_for(machine);
  for (const auto& info : model::coefficient_table()) {
    if (changes.contains(info.name)) coefficients.*info.member = changes[std::string(info.name)].get<double>();
  }
  nlohmann::json rows = nlohmann::json::array();
  for (const auto& each : problems) {
    const model::Agreement a = each.judge(machine, coefficients);
    rows.push_back({a.best_us, a.first_us, a.top_us, a.expected_us, a.bias, a.spread});
  }
  return {{"problems", rows}};
}

}  // namespace

int main(int argc, char** argv) {
  const long most = argc == 3 ? std::strtol(argv[2], nullptr, 10) : 0;
  if (argc < 2 || argc > 3 || (argc == 3 && most < 2)) {
    fmt::print(stderr, "usage: warpsmith-model-loss REPLAY [RECIPES], of each problem at most RECIPES, 2 or more\n");
    return 2;
  }
  const auto table = ReplayTable::load(argv[1]);
  if (!table) {
    fmt::print(stderr, "warpsmith-model-loss: {}\n", table.error().message);
    return 2;
  }
  std::vector<model::MeasuredProblem> problems;
  for (const Problem& problem : table->problems()) {
    std::vector<model::Measured> times = measured_times(*table, problem);
    if (most > 0) times = thinned(std::move(times), static_cast<std::size_t>(most));
    model::MeasuredProblem measured(problem, times);
    if (measured.size() > 0) problems.push_back(std::move(measured));
  }
  if (problems.empty()) {
    fmt::print(stderr, "warpsmith-model-loss: {} holds no time of a recipe that the model knows\n", argv[1]);
    return 2;
  }
  std::cout << introduction(problems, table->machine()).dump() << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    try {
      std::cout << answer(line, problems, table->machine()).dump() << std::endl;
    } catch (const nlohmann::json::exception& error) {
      fmt::print(stderr, "warpsmith-model-loss: {}\n", error.what());
      return 2;
    }
  }
  return 0;
}
