// Rows, lines and files of `tune`.
#include "tune_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "base/file.h"
#include "bench_tables.h"
#include "report/table.h"
#include "search/conclude.h"

namespace warpsmith::cli {

namespace {

std::string short_recipe(const std::string& text) {
  const auto recipe = parse_recipe(text);
  return recipe ? to_short_string(*recipe) : text;
}

// The lowest cold (or warm) time of the baselines whose names start so; empty: none was measured.
std::string fastest_us(const TuneConclusion* conclusion, const std::string& prefix, bool warm = false) {
  if (conclusion == nullptr) return {};
  double best_us = 0;
  for (const Measurement& subject : conclusion->subjects) {
    const double time_us = warm ? subject.warm.median_us : subject.cold.median_us;
    if (!subject.subject.starts_with(prefix) || !(time_us > 0)) continue;
    if (best_us == 0 || time_us < best_us) best_us = time_us;
  }
  return best_us > 0 ? fmt::format("{:.4f}", best_us) : std::string();
}

std::string time_text(double time_us) { return time_us > 0 ? fmt::format("{:.4f}", time_us) : std::string(); }

struct ShapeRow {
  const TuneConclusion *nn = nullptr, *tn = nullptr, *best = nullptr;
};

std::string csv_row(const ShapeRow& row) {
  const TuneConclusion& best = *row.best;
  const auto ours = [](const TuneConclusion* c) { return c ? time_text(c->ours().cold.median_us) : std::string(); };
  const auto pdl = [](const TuneConclusion* c) { return c ? c->pdl_us : 0; };
  double pdl_us = pdl(&best);
  for (const double other : {pdl(row.nn), pdl(row.tn)}) {
    if (other > 0 && (pdl_us == 0 || other < pdl_us)) pdl_us = other;
  }
  const std::vector<std::string> cells = {fmt::format("{}", best.problem.m),
                                          fmt::format("{}", best.problem.n),
                                          fmt::format("{}", best.problem.k),
                                          ours(&best),
                                          ours(row.nn),
                                          ours(row.tn),
                                          time_text(best.ours().warm.median_us),
                                          time_text(pdl_us),
                                          fastest_us(&best, "cublaslt-auto-"),
                                          fastest_us(row.nn ? row.nn : &best, "cublaslt-auto-nn"),
                                          fastest_us(row.tn ? row.tn : &best, "cublaslt-auto-tn"),
                                          fastest_us(&best, "cublaslt-auto-", true),
                                          fastest_us(&best, "cublaslt-heuristic-"),
                                          fastest_us(&best, "cublas-"),
                                          csv_field(best.recipe),
                                          fmt::format("passed {}", best.gates.size())};
  return fmt::format("{}\n", fmt::join(cells, ","));
}

}  // namespace

nlohmann::json tune_row(const TuneConclusion& conclusion, Target target, int threads) {
  const Problem& problem = conclusion.problem;
  Verdict verdict;
  verdict.outcome = verdict::Accepted{conclusion.ours()};
  verdict.gates = conclusion.gates;
  nlohmann::json row = {{"problem", to_string(problem)},
                        {"m", problem.m},
                        {"n", problem.n},
                        {"k", problem.k},
                        {"layout", to_string(problem.layout)},
                        {"target", to_string(target)},
                        {"threads", threads},
                        {"recipe", short_recipe(conclusion.recipe)},
                        {"source_hash", conclusion.source_hash},
                        {"verdict", verdict},
                        {"conclusion", {{"recipe", conclusion.recipe}, {"subjects", conclusion.subjects}}},
                        {"provenance", conclusion.provenance}};
  if (conclusion.pdl_us > 0) {
    row["pdl"] = {{"cold_us", conclusion.pdl_us},
                  {"warm_us", conclusion.pdl_warm_us},
                  {"recipe", short_recipe(conclusion.pdl_recipe)}};
  }
  const Measurement& ours = conclusion.ours();
  if (const Measurement* same = fastest_of(conclusion.subjects, to_string(problem.layout))) {
    row["fastest_baseline"] = same->subject;
    row["speedup"] = same->cold.median_us / ours.cold.median_us;
    row["speedup_warm"] = same->warm.median_us / ours.warm.median_us;
    if (conclusion.pdl_us > 0) row["speedup_pdl"] = same->cold.median_us / conclusion.pdl_us;
  }
  if (const Measurement* any = fastest_of(conclusion.subjects)) {
    row["speedup_any_layout"] = any->cold.median_us / ours.cold.median_us;
  }
  return row;
}

std::string tune_line(const nlohmann::json& row) {
  std::string text = live_line(row);
  if (row.contains("pdl")) {
    text += fmt::format("  [pdl {} us]", significant(row["pdl"]["cold_us"].get<double>()));
  }
  return text;
}

std::string shapes_csv(const std::vector<TuneConclusion>& conclusions, const Provenance& provenance,
                       std::size_t shapes) {
  std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t>, ShapeRow> rows;
  for (const TuneConclusion& conclusion : conclusions) {
    const Problem& problem = conclusion.problem;
    ShapeRow& row = rows[{problem.m, problem.n, problem.k}];
    if (problem.layout == Layout::nn) row.nn = &conclusion;
    if (problem.layout == Layout::tn) row.tn = &conclusion;
    if (!row.best || conclusion.ours().cold.median_us < row.best->ours().cold.median_us) row.best = &conclusion;
  }
  std::string text = fmt::format("# {} of {} shapes\n", rows.size(), shapes);
  for (const auto& [key, value] : provenance.facts()) text += fmt::format("# {}: {}\n", key, value);
  text +=
      "# times: median us a launch, cold operands unless the name says warm; ours_us and recipe: the faster layout\n"
      "# lt_auto_us, lt_auto_warm_us, lt_heuristic_us, cublas_us: the faster layout of theirs, interleaved with "
      "ours_us\n"
      "# *_nn_us, *_tn_us: interleaved with ours in that layout; ours_pdl_us: the fastest recipe with dependent "
      "launch\n"
      "m,n,k,ours_us,ours_nn_us,ours_tn_us,ours_warm_us,ours_pdl_us,lt_auto_us,lt_auto_nn_us,lt_auto_tn_us,"
      "lt_auto_warm_us,lt_heuristic_us,cublas_us,recipe,gates\n";
  for (const auto& [shape, row] : rows) text += csv_row(row);
  return text;
}

WisdomEntry wisdom_entry(const TuneConclusion& conclusion) {
  WisdomEntry entry;
  entry.problem = conclusion.problem;
  entry.recipe = conclusion.recipe;
  entry.source_hash = conclusion.source_hash;
  entry.cold_us = conclusion.ours().cold.median_us;
  entry.warm_us = conclusion.ours().warm.median_us;
  entry.pdl_us = conclusion.pdl_us;
  entry.pdl_recipe = conclusion.pdl_recipe;
  if (const Measurement* same = fastest_of(conclusion.subjects, to_string(conclusion.problem.layout))) {
    entry.baseline = same->subject;
    entry.baseline_us = same->cold.median_us;
    entry.baseline_warm_us = same->warm.median_us;
    entry.baseline_setting = same->detail;
  }
  entry.gates_passed = static_cast<int>(conclusion.gates.size());
  const auto provenance = conclusion.provenance.is_null() ? Provenance{} : conclusion.provenance.get<Provenance>();
  entry.date = provenance.date;
  entry.commit = provenance.commit;
  for (const auto& [key, value] : provenance.facts()) {
    if (key == "driver" || key == "cuda" || key == "cublas" || key == "clock_mhz" || key == "c++" || key == "nvrtc") {
      entry.provenance[key] = value;
    }
  }
  return entry;
}

Result<std::size_t> write_wisdom(const std::filesystem::path& path, const WisdomHeader& header,
                                 const std::vector<TuneConclusion>& conclusions) {
  Wisdom wisdom(header);
  if (std::filesystem::exists(path)) {
    auto known = Wisdom::load(path);
    if (!known) return known.error();
    if (!known->header().same_machine(header)) {
      return bad_input(fmt::format("{} is of {} (target {}), and this is {} (target {}); give --wisdom another file",
                                   path.string(), known->header().machine, to_string(known->header().target),
                                   header.machine, to_string(header.target)));
    }
    wisdom = std::move(*known);
  }
  std::size_t taken = 0;
  for (const TuneConclusion& conclusion : conclusions) taken += wisdom.merge(wisdom_entry(conclusion)) ? 1 : 0;
  if (taken == 0) return taken;
  wisdom.set_versions(header.versions);
  if (const Status status = wisdom.save(path); !status) return status.error();
  return taken;
}

std::string progress_text(const TuneProgress& progress) {
  const double left = std::max(0.0, progress.budget_seconds - progress.elapsed_seconds);
  const double rate = progress.elapsed_seconds > 0 ? static_cast<double>(progress.tried) / progress.elapsed_seconds : 0;
  std::string text =
      fmt::format("{:.0f} s left  {}/{} problems  round {}  {} tried  {:.1f}/s  built {}/{}", left, progress.covered,
                  progress.problems, progress.rounds + 1, progress.tried, rate, progress.built, progress.sources);
  if (progress.compared > 0) {
    text += fmt::format("  {:.3f}x", progress.geometric_mean);
    if (progress.compared < progress.problems) text += fmt::format(" over {}", progress.compared);
  }
  return text;
}

nlohmann::json to_json(const TuneResult& result) {
  const TuneProgress& progress = result.progress;
  return {{"search",
           {{"elapsed_seconds", progress.elapsed_seconds},
            {"problems", progress.problems},
            {"covered", progress.covered},
            {"rounds", progress.rounds},
            {"tried", progress.tried},
            {"unmeasured", progress.unmeasured},
            {"resumed", progress.resumed},
            {"sources", progress.sources},
            {"built", progress.built},
            {"verdicts", result.by_kind},
            {"preparations", result.preparations},
            {"prepare_seconds", result.prepare_seconds},
            {"measure_seconds", result.measure_seconds},
            {"idle_seconds", result.idle_seconds},
            {"geometric_mean", progress.geometric_mean},
            {"compared", progress.compared},
            {"exhausted", result.exhausted},
            {"interrupted", result.interrupted}}}};
}

std::string describe(const TuneResult& result) {
  const TuneProgress& progress = result.progress;
  std::string kinds;
  for (const auto& [kind, count] : result.by_kind) kinds += fmt::format(", {} {}", count, kind);
  const double rate = progress.elapsed_seconds > 0 ? static_cast<double>(progress.tried) / progress.elapsed_seconds : 0;
  std::string text = fmt::format(
      "{} tried in {:.1f} s ({:.1f}/s{}), {} known before; {} of {} problems have a kernel, {} rounds of all done\n",
      progress.tried, progress.elapsed_seconds, rate, kinds, progress.resumed, progress.covered, progress.problems,
      progress.rounds);
  const double each =
      result.preparations > 0 ? 1e3 * result.prepare_seconds / static_cast<double>(result.preparations) : 0;
  return text + fmt::format(
                    "{} sources built; {} changes of problem, {:.1f} ms each; measuring {:.1f} s, waiting for "
                    "compilers {:.1f} s\n",
                    progress.built, result.preparations, each, result.measure_seconds, result.idle_seconds);
}

}  // namespace warpsmith::cli
