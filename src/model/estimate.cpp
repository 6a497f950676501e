// What the families' models share, and the entry that reads a recipe's knobs.
#include "model/estimate.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "model/family_models.h"

namespace warpsmith::model {

namespace {

using Term = std::pair<const char*, double Estimate::*>;
constexpr std::array<Term, 6> kTerms = {{{"tensor", &Estimate::tensor_us},
                                         {"l2", &Estimate::l2_us},
                                         {"dram", &Estimate::dram_us},
                                         {"reduce", &Estimate::reduce_us},
                                         {"epilogue", &Estimate::epilogue_us},
                                         {"latency", &Estimate::latency_us}}};

}  // namespace

Estimate finish(const Cycles& cycles, const Setting& setting) {
  const double order = setting.coefficients.device_overlap;
  const double body = overlapped(overlapped(cycles.units, cycles.l2, order), cycles.dram, order);
  const double total = cycles.start + body;
  Estimate result = cycles.terms;
  const double per_us = setting.device.cycles_per_us;
  result.time_us = total / per_us;
  const Term* largest = &kTerms.front();
  for (const Term& term : kTerms) {
    result.*term.second /= per_us;
    if (result.*term.second > result.*largest->second) largest = &term;
  }
  result.limiter = largest->first;
  return result;
}

double overlapped(double x, double y, double order) {
  const auto [shorter, longer] = std::minmax(x, y);
  return longer * std::pow(1 + std::pow(shorter / longer, order), 1 / order);
}

double refilled_step(const Pipeline& p) { return std::hypot(p.lone_step, p.trip / p.stages); }

double lone_cycles(const Pipeline& p) {
  return p.first_trip + p.steps * (p.steps > p.stages ? refilled_step(p) : p.lone_step) + p.lone_tail;
}

double queue_cycles(const Pipeline& p, double queue, double resident, double prologue, double start) {
  const double together = std::min(queue, resident);
  const double chain = std::ceil(queue / together) * (prologue + start * together + lone_cycles(p));
  const double busy = queue * (p.steps * p.busy_step + p.busy_tail + start);
  return std::max(chain, prologue + p.first_trip + busy);
}

double power_factor(double flops, const Setting& setting) {
  const double peak_us = flops / (setting.device.tensor_flops * setting.device.units * setting.device.cycles_per_us);
  const Coefficients& c = setting.coefficients;
  return 1 / (1 - (1 - c.power_share) * peak_us / (peak_us + c.power_onset_us));
}

double result_cost(const Setting& setting) {
  const Problem& problem = setting.problem;
  const double bytes = 2.0 * static_cast<double>(problem.m) * static_cast<double>(problem.n);
  return bytes * (setting.coefficients.dram_write + (problem.scaled() ? 1 : 0));
}

double resident_clusters(int blocks, const Machine& machine) {
  Sm90Knobs knobs;
  knobs.split = blocks;
  return sm90_resident_clusters(knobs, machine);
}

int granule(std::int64_t columns, std::int64_t ld) { return std::min(sm80_granule(columns), sm80_granule(ld)); }

bool covers(const Family& family) {
  return &family == &sm90_family() || &family == &sm80_family() || &family == &tiny_family() ||
         &family == &skinny_family();
}

AnyKnobs read_knobs(const Recipe& recipe, const Problem& problem) {
  const Family& family = recipe.family();
  if (&family == &sm90_family()) return sm90_knobs(recipe);
  if (&family == &sm80_family()) return sm80_knobs(recipe);
  if (&family == &tiny_family()) return tiny_knobs(recipe);
  return skinny_knobs(recipe, problem);
}

Estimate estimate(const AnyKnobs& knobs, const Setting& setting) {
  if (const auto* sm90 = std::get_if<Sm90Knobs>(&knobs)) return estimate_sm90(*sm90, setting);
  if (const auto* sm80 = std::get_if<Sm80Knobs>(&knobs)) return estimate_sm80(*sm80, setting);
  return estimate_direct(std::get<DirectKnobs>(knobs), setting);
}

bool depends_on_predecessor(const Recipe& recipe) {
  const auto fields = recipe.family().fields();
  return std::any_of(fields.begin(), fields.end(),
                     [&](const KnobField* field) { return field->name == "pdl" && recipe.get("pdl") != 0; });
}

Estimate estimate(const Recipe& recipe, const Problem& problem, const Machine& machine,
                  const Coefficients& coefficients) {
  if (!covers(recipe.family())) return {};
  return estimate(read_knobs(recipe, problem), Setting(problem, machine, coefficients));
}

Estimate estimate(const Recipe& recipe, const Problem& problem, const Machine& machine) {
  return estimate(recipe, problem, machine, coefficients_for(machine));
}

}  // namespace warpsmith::model
