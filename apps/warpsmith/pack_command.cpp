// `warpsmith pack`: the kernels of a wisdom file, compiled into one file that libwarpsmith loads. Needs no GPU.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "base/paths.h"
#include "base/text.h"
#include "build_commit.h"
#include "cli.h"
#include "devices.h"
#include "library/locations.h"
#include "library/pack_builder.h"
#include "problem/grids.h"
#include "progress.h"
#include "warpsmith/hgemm.h"

namespace warpsmith::cli {

namespace {

namespace fs = std::filesystem;

struct PackArguments {
  std::string wisdom, arch, output, elements = "as-tuned", shapes, list;
  int jobs = 0;
  bool no_scaled = false, json = false, quiet = false;
};

// The only GPU's file in wisdom/, here or installed, when none is named.
Result<fs::path> default_wisdom() {
  std::vector<fs::path> found;
  for (const fs::path& folder :
       {fs::path("wisdom"), executable_dir() / ".." / "share" / "warpsmith" / "wisdom", data_dir() / "wisdom"}) {
    std::error_code error;
    for (const auto& file : fs::directory_iterator(folder, error)) {
      if (file.path().extension() != ".jsonl") continue;
      const auto wisdom = Wisdom::load(file.path());
      if (wisdom && is_cuda(wisdom->header().target)) found.push_back(file.path());
    }
    if (!found.empty()) break;
  }
  if (found.size() == 1) return found.front();
  std::string names;
  for (const fs::path& path : found) names += (names.empty() ? "" : ", ") + path.string();
  return bad_input(found.empty() ? "no wisdom file of a GPU in wisdom/; name one with --wisdom"
                                 : fmt::format("several wisdom files; name one with --wisdom: {}", names));
}

Result<std::vector<ElementType>> parse_elements(const std::string& text) {
  if (text == "as-tuned") return std::vector<ElementType>{};
  if (text == "both") return std::vector<ElementType>{ElementType::f16, ElementType::bf16};
  const auto element = parse_element(text);
  if (!element) {
    return bad_input(fmt::format("unknown element '{}'; accepted: as-tuned, f16, bf16, both", printable(text)));
  }
  return std::vector<ElementType>{*element};
}

// Shapes of the user's own, in every layout and element.
Result<std::vector<Problem>> further_problems(const PackArguments& arguments,
                                              const std::vector<ElementType>& elements) {
  std::vector<Problem> problems;
  if (arguments.shapes.empty()) return problems;
  const auto shapes = load_shapes(arguments.shapes);
  if (!shapes) return shapes.error();
  const auto wanted = elements.empty() ? std::vector<ElementType>{ElementType::f16} : elements;
  for (const Shape& shape : *shapes) {
    for (const Layout layout : {Layout::tn, Layout::nn, Layout::tt, Layout::nt}) {
      for (const ElementType element : wanted) {
        for (const Scaling scaling : {Scaling::none, Scaling::alpha_beta}) {
          if (scaling == Scaling::alpha_beta && arguments.no_scaled) continue;
          Problem problem;
          problem.m = shape.m;
          problem.n = shape.n;
          problem.k = shape.k;
          problem.layout = layout;
          problem.element = element;
          problem.scaling = scaling;
          problems.push_back(problem);
        }
      }
    }
  }
  return problems;
}

int list_pack(const PackArguments& arguments) {
  const auto pack = library::Pack::open(arguments.list);
  if (!pack) return report(pack.error());
  nlohmann::json json = pack->metadata();
  json["kernels"] = pack->size();
  if (arguments.json) {
    fmt::print("{}\n", json.dump(2));
  } else {
    for (const auto& [name, value] : json.items()) {
      fmt::print("{:<20}{}\n", name, value.is_string() ? printable(value.get<std::string>()) : value.dump());
    }
  }
  return kExitOk;
}

void print_result(const PackArguments& arguments, const fs::path& output, const library::PackPlan& plan,
                  const library::PackReport& built) {
  const auto& progress = built.progress;
  if (arguments.json) {
    fmt::print("{}\n", nlohmann::json{{"pack", output.string()},
                                      {"bytes", built.file_bytes},
                                      {"entries", plan.entries},
                                      {"kernels", progress.total - progress.failed},
                                      {"from_cache", progress.from_cache},
                                      {"failed", progress.failed},
                                      {"failures", built.failures},
                                      {"left_out", plan.left_out}}
                           .dump(2));
    return;
  }
  for (const std::string& reason : plan.left_out) fmt::print(stderr, "left out: {}\n", printable(reason, 200));
  for (const std::string& reason : built.failures) fmt::print(stderr, "does not compile: {}\n", printable(reason, 200));
  fmt::print("{}: {} kernels for {} tuned problems, {:.1f} MB ({} from the cache{})\n", output.string(),
             progress.total - progress.failed, plan.entries, static_cast<double>(built.file_bytes) * 1e-6,
             progress.from_cache, progress.failed > 0 ? fmt::format(", {} do not compile", progress.failed) : "");
}

int run_pack(const PackArguments& arguments) {
  if (!arguments.list.empty()) return list_pack(arguments);
  const auto path = arguments.wisdom.empty() ? default_wisdom() : Result<fs::path>(arguments.wisdom);
  if (!path) return report(path.error());
  const auto wisdom = Wisdom::load(*path);
  if (!wisdom) return report(wisdom.error());
  if (!is_cuda(wisdom->header().target)) {
    return report(bad_input(fmt::format("{} is of a CPU; kernel packs are for GPUs", path->string())));
  }
  const auto elements = parse_elements(arguments.elements);
  if (!elements) return report(elements.error());
  const auto problems = further_problems(arguments, *elements);
  if (!problems) return report(problems.error());

  const Machine machine = library::machine_of(wisdom->header());
  const library::PackVariants variants{!arguments.no_scaled, *elements, arguments.arch};
  const library::PackPlan plan = library::plan_pack(*wisdom, machine, variants, *problems);
  if (plan.kernels.empty()) {
    return report(
        bad_input(fmt::format("{} names no kernel{}", path->string(),
                              arguments.arch.empty() ? "" : " of architecture " + printable(arguments.arch))));
  }
  const std::string gpu = wisdom_name(wisdom->header());
  const fs::path output = arguments.output.empty() ? library::default_pack_path(gpu) : fs::path(arguments.output);
  CompilerOptions options{.cache = cache_dir()};
  options.nvrtc_helper = library::find_nvrtc_helper();
  const Compiler compiler(options);
  const nlohmann::json metadata = {
      {"gpu", wisdom->header().machine},
      {"compute_capability", wisdom->header().compute_capability},
      {"version", fmt::format("{}.{}.{}", WARPSMITH_VERSION_MAJOR, WARPSMITH_VERSION_MINOR, WARPSMITH_VERSION_PATCH)},
      {"commit", kBuildCommit},
      {"compilers", compiler.versions()},
      {"tuned_problems", plan.entries}};
  ProgressLine line(arguments.quiet || arguments.json);
  const auto built =
      library::build_pack(plan, compiler, arguments.jobs > 0 ? arguments.jobs : available_threads(), metadata, output,
                          interrupted(), [&](const library::PackProgress& progress) {
                            line.update(static_cast<double>(progress.done) / static_cast<double>(progress.total),
                                        fmt::format("{}/{} kernels  {} from the cache  {} failed", progress.done,
                                                    progress.total, progress.from_cache, progress.failed));
                          });
  line.clear();
  if (!built) {
    if (interrupted().load()) {
      report(built.error());
      return kExitInterrupted;
    }
    return report(built.error());
  }
  print_result(arguments, output, plan, *built);
  return built->progress.failed == 0 ? kExitOk : kExitFailed;
}

}  // namespace

void add_pack_command(CLI::App& app, Run& run) {
  auto arguments = std::make_shared<PackArguments>();
  CLI::App* command = app.add_subcommand("pack", "Compile a wisdom file's kernels into one file for libwarpsmith");
  command->add_option("--wisdom", arguments->wisdom, "Wisdom file; default: the only one of a GPU in wisdom/");
  command->add_option("--output", arguments->output, "Kernel pack to write; default: where the library looks for it");
  command->add_option("--arch", arguments->arch, "Kernels of this architecture alone, such as sm_90a");
  command->add_option("--elements", arguments->elements, "as-tuned (default), f16, bf16 or both");
  command->add_flag("--no-scaled", arguments->no_scaled, "Leave out the variants with alpha and beta");
  command->add_option("--shapes", arguments->shapes, "File of further shapes: what the library would choose for them");
  command->add_option("--jobs", arguments->jobs, "Compilers at a time; default: one for each CPU")
      ->check(CLI::Range(1, 1024));
  command->add_option("--list", arguments->list, "Say what this pack holds, and do nothing else");
  command->add_flag("--json", arguments->json, "Print as JSON");
  command->add_flag("--quiet", arguments->quiet, "No progress line");
  command->callback([arguments, &run] { run = [arguments] { return run_pack(*arguments); }; });
}

}  // namespace warpsmith::cli
