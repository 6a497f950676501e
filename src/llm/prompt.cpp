// Facts as the words of a prompt.
#include "llm/prompt.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "codegen/descriptor.h"
#include "codegen/generate.h"
#include "recipe/recipe.h"
#include "report/table.h"

namespace warpsmith::llm {

namespace {

std::string count_text(double value) {
  for (const auto& [unit, name] : {std::pair{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}}) {
    if (value >= unit) return fmt::format("{} {}", significant(value / unit), name);
  }
  return fmt::format("{:.0f} ", value);
}

std::string storage_text(const Problem& problem) {
  return fmt::format("All matrices are row-major: A is stored {} x {}, B {} x {} (layout {}), C {} x {}{}.",
                     problem.a_rows(), problem.a_cols(), problem.b_rows(), problem.b_cols(), to_string(problem.layout),
                     problem.m, problem.n,
                     problem.packed() ? std::string()
                                      : fmt::format(", with {}, {} and {} elements from row to row", problem.a_ld(),
                                                    problem.b_ld(), problem.c_ld()));
}

std::string cuda_text(const Machine& machine) {
  std::string text = fmt::format(
      "{}, compute capability {}.{}: {} multiprocessors, {} KiB of shared memory for a block, "
      "{} registers each, {} MiB of L2",
      machine.name, machine.compute_capability / 10, machine.compute_capability % 10, machine.units,
      machine.smem_bytes_per_block >> 10, machine.registers_per_unit, machine.l2_bytes >> 20);
  if (machine.peak_gflops > 0)
    text += fmt::format(", {} TFLOP/s of dense half-precision peak", significant(machine.peak_gflops / 1e3));
  if (machine.peak_gb_per_s > 0)
    text += fmt::format(", {} GB/s of memory bandwidth", significant(machine.peak_gb_per_s));
  if (machine.launch_floor_us > 0)
    text += fmt::format("; the shortest launch takes {} us", significant(machine.launch_floor_us));
  return text + ".";
}

std::string cpu_text(const Archive::Scope& scope) {
  const Machine& machine = scope.machine;
  std::string text = fmt::format("{}, {} thread{} for the kernel; caches of {} KiB, {} KiB and {} MiB; {}",
                                 machine.name, scope.threads, scope.threads == 1 ? "" : "s", machine.l1_bytes >> 10,
                                 machine.l2_bytes >> 10, machine.l3_bytes >> 20,
                                 machine.avx512 ? "AVX-512"
                                 : machine.avx2 ? "AVX2 with FMA and F16C"
                                                : "no AVX2");
  if (machine.peak_gflops > 0) text += fmt::format("; {} GFLOP/s as measured", significant(machine.peak_gflops));
  return text + ".";
}

std::string number_list(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += fmt::format("{}- {}", text.empty() ? "" : "\n", line);
  return text;
}

// Without the last newline, since templates have their own.
std::string unended(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

std::string exemplar_text(const Prompts& prompts, const Exemplar& exemplar, std::size_t number) {
  return prompts.exemplar.render(
      {{"number", std::to_string(number)},
       {"time", fmt::format("{} us", significant(exemplar.measured.time_us))},
       {"speedup", exemplar.measured.speedup > 0 ? fmt::format("{:.3f}", exemplar.measured.speedup) : std::string()},
       {"recipe", exemplar.recipe},
       {"metrics", exemplar.metrics},
       {"source", unended(exemplar.source)},
       {"descriptor", unended(exemplar.descriptor)},
       {"omitted", exemplar.omitted}});
}

std::string knob_tables(const Archive::Scope& scope) {
  std::string text;
  for (const Family* family : families_for(scope.target)) text += knob_table_markdown(*family) + "\n";
  return text;
}

}  // namespace

std::vector<Measured> accepted_kernels(const std::vector<AttemptSummary>& history, double reference_us) {
  std::map<std::string, double> best;
  std::set<std::string> wrong;
  for (const AttemptSummary& attempt : history) {
    if (attempt.kind == "wrong") wrong.insert(attempt.recipe);
    if (!attempt.cold_us || !(*attempt.cold_us > 0)) continue;
    const auto [entry, fresh] = best.emplace(attempt.recipe, *attempt.cold_us);
    if (!fresh) entry->second = std::min(entry->second, *attempt.cold_us);
  }
  std::vector<Measured> kernels;
  for (const auto& [name, time_us] : best) {
    if (wrong.count(name) == 0) kernels.push_back({name, time_us, reference_us > 0 ? reference_us / time_us : 0});
  }
  std::stable_sort(kernels.begin(), kernels.end(),
                   [](const Measured& a, const Measured& b) { return a.time_us < b.time_us; });
  return kernels;
}

std::vector<Measured> draw_exemplars(const std::vector<AttemptSummary>& history, double reference_us, std::size_t count,
                                     const embedded::BucketOptions& options, Rng& rng) {
  const std::vector<Measured> kernels = accepted_kernels(history, reference_us);
  if (kernels.empty()) return {};
  // Without a reference the fastest stands in: only ratios matter for the draw.
  const double reference = reference_us > 0 ? reference_us : kernels.front().time_us;
  std::vector<double> speedups;
  for (const Measured& kernel : kernels) speedups.push_back(reference / kernel.time_us);
  std::vector<Measured> drawn;
  for (const std::size_t at : embedded::draw_by_buckets(speedups, count, options, rng)) drawn.push_back(kernels[at]);
  std::stable_sort(drawn.begin(), drawn.end(),
                   [](const Measured& a, const Measured& b) { return a.time_us > b.time_us; });
  return drawn;
}

Result<Exemplar> show(const Measured& measured, const Archive::Scope& scope, Archive& archive) {
  Exemplar exemplar;
  exemplar.measured = measured;
  if (measured.name.rfind("free ", 0) == 0) {
    const auto form = archive.find_free_form(measured.name);
    if (!form) return form.error();
    if (!*form) return bad_input("the archive does not hold the source of " + measured.name);
    exemplar.source = (*form)->source;
    exemplar.descriptor = (*form)->descriptor;
  } else {
    const auto recipe = parse_recipe(measured.name);
    if (!recipe) return recipe.error();
    exemplar.recipe = to_short_string(*recipe);
    if (!is_cuda(scope.target)) return exemplar;
    const auto candidate = generate(*recipe, scope.problem, scope.machine);
    if (!candidate) return candidate.error();
    exemplar.source = candidate->source;
    exemplar.descriptor = describe_candidate(*candidate, recipe->family().name, scope.problem, nullptr).dump(2);
  }
  if (exemplar.source.size() > kMaxExemplarSourceBytes) {
    exemplar.omitted = fmt::format("Its source of {} bytes is not shown. It is launched as:\n```json\n{}\n```",
                                   exemplar.source.size(), exemplar.descriptor);
    exemplar.source.clear();
    exemplar.descriptor.clear();
  }
  return exemplar;
}

TemplateValues problem_values(const Archive::Scope& scope) {
  const Problem& problem = scope.problem;
  return {{"m", std::to_string(problem.m)},
          {"n", std::to_string(problem.n)},
          {"k", std::to_string(problem.k)},
          {"layout", std::string(to_string(problem.layout))},
          {"element", std::string(to_string(problem.element))},
          {"accumulator", std::string(to_string(problem.accumulator))}};
}

std::vector<Message> propose(const Prompts& prompts, const PromptFacts& facts) {
  const Archive::Scope& scope = facts.scope;
  const Problem& problem = scope.problem;
  TemplateValues values = problem_values(scope);
  values["storage"] = storage_text(problem);
  if (problem.scaled())
    values["scaling"] =
        "; C = alpha A B + beta C, the factors given with each launch (arguments {\"alpha\": true} and {\"beta\": "
        "true}, floats)";
  values["flops"] = count_text(problem.flops());
  values["bytes"] = count_text(problem.bytes()) + "B";
  values["machine"] = is_cuda(scope.target) ? cuda_text(scope.machine) : cpu_text(scope);
  if (facts.reference_us > 0)
    values["reference"] = fmt::format("{} us ({})", significant(facts.reference_us), facts.reference);
  values["floor"] = fmt::format("{} us", significant(physical_floor_us(problem, scope.machine, true)));
  values["arch"] = scope.target == Target::sm90 ? "sm_90a" : fmt::format("sm_{}", scope.machine.compute_capability);
  std::string exemplars;
  for (std::size_t i = 0; i < facts.exemplars.size(); ++i) {
    exemplars += (i == 0 ? "" : "\n") + exemplar_text(prompts, facts.exemplars[i], i + 1);
  }
  values["exemplars"] = unended(exemplars);
  values["failures"] = number_list(facts.failures);
  std::string retrieved;
  for (const auto& [place, text] : facts.retrieved) {
    retrieved += fmt::format("{}## {}\n{}\n", retrieved.empty() ? "" : "\n", place, unended(text));
  }
  values["retrieved"] = unended(retrieved);
  values["headers"] = facts.headers;
  const bool cuda = is_cuda(scope.target);
  if (!cuda) values["knobs"] = knob_tables(scope);
  return {{"system", prompts.system.render({})}, {"user", (cuda ? prompts.cuda : prompts.cpu).render(values)}};
}

std::vector<Message> repair(const Prompts& prompts, std::vector<Message> messages, const std::string& answer,
                            const std::string& reason, const std::string& words) {
  messages.push_back({"assistant", answer});
  messages.push_back({"user", prompts.repair.render({{"reason", reason}, {"words", unended(words)}})});
  return messages;
}

}  // namespace warpsmith::llm
