// `warpsmith info`: what this machine has, what works and what does not.
#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "archive/archive.h"
#include "base/paths.h"
#include "base/text.h"
#include "cli.h"
#include "devices.h"
#include "recipe/recipe.h"

namespace warpsmith::cli {

namespace {

struct InfoArguments {
  std::string knobs;
  bool json = false;
};

int print_knobs(const std::string& name) {
  if (name == "all") {
    for (const Family* family : families()) fmt::print("{}\n", knob_table_markdown(*family));
    return kExitOk;
  }
  const Family* family = find_family(name);
  if (family == nullptr) {
    return report(bad_input(fmt::format("unknown family '{}'; accepted: all, {}", printable(name), family_names())));
  }
  fmt::print("{}", knob_table_markdown(*family));
  return kExitOk;
}

// One device: its machine facts, or why it cannot be used.
nlohmann::json describe_device(const std::string& target) {
  DeviceOptions options;
  options.target = target;
  const auto device = open_device(options, 1);
  if (!device) return {{"target", target}, {"works", false}, {"reason", device.error().message}};
  return {{"target", target}, {"works", true}, {"machine", device->evaluator->machine()}};
}

void print_device(const nlohmann::json& device) {
  if (!device["works"].get<bool>()) {
    fmt::print("{:<6}does not work: {}\n", device["target"].get<std::string>(), device["reason"].get<std::string>());
    return;
  }
  const Machine machine = device["machine"].get<Machine>();
  fmt::print("{:<6}works: {}, {} {}", device["target"].get<std::string>(), machine.name, machine.units,
             machine.kind == "cpu" ? "threads" : "SMs");
  if (machine.peak_gflops > 0) fmt::print(", peak {:.0f} GFLOP/s", machine.peak_gflops);
  if (machine.peak_gb_per_s > 0) fmt::print(", {:.0f} GB/s", machine.peak_gb_per_s);
  if (machine.kind == "cpu") {
    fmt::print(", {}", machine.avx512 ? "AVX-512" : machine.avx2 ? "AVX2" : "no AVX2: no kernel family runs here");
  }
  fmt::print("\n");
  for (const auto& [name, version] : machine.versions) fmt::print("      {}: {}\n", name, version);
}

int run_info(const InfoArguments& arguments) {
  if (!arguments.knobs.empty()) return print_knobs(arguments.knobs);
  nlohmann::json devices = nlohmann::json::array();
  devices.push_back(describe_device("cpu"));
#ifdef WARPSMITH_HAVE_CUDA
  devices.push_back(describe_device("sm80"));
  devices.push_back(describe_device("sm90"));
#else
  for (const char* target : {"sm80", "sm90"}) {
    devices.push_back({{"target", target},
                       {"works", false},
                       {"reason", "built without CUDA; install the CUDA toolkit (12.4 or later) and build again"}});
  }
#endif
  const Compiler compiler({.cache = cache_dir()});
  const auto compilers = compiler.versions();
  const auto archive_path = data_dir() / "archive.sqlite";
  std::int64_t attempts = 0;
  if (std::filesystem::exists(archive_path)) {
    const auto archive = Archive::open(archive_path);
    if (!archive) return report(archive.error());
    const auto count = (*archive)->attempt_count();
    if (!count) return report(count.error());
    attempts = *count;
  }
  if (arguments.json) {
    const nlohmann::json json = {{"version", WARPSMITH_VERSION}, {"devices", devices},
                                 {"compilers", compilers},       {"archive", archive_path.string()},
                                 {"attempts", attempts},         {"cache", cache_dir().string()}};
    fmt::print("{}\n", json.dump(2));
    return kExitOk;
  }
  fmt::print("warpsmith {}\n\ntargets\n", WARPSMITH_VERSION);
  for (const auto& device : devices) print_device(device);
  fmt::print("\ncompilers\n");
  for (const auto& [name, version] : compilers) fmt::print("  {}: {}\n", name, version);
  if (compilers.empty()) fmt::print("  none\n");
  fmt::print("\nfiles\n  archive  {} ({} candidates tried)\n  kernels  {}\n  cache    {} (safe to delete)\n",
             archive_path.string(), attempts, (data_dir() / "kernels").string(), cache_dir().string());
  return kExitOk;
}

}  // namespace

void add_info_command(CLI::App& app, Run& run) {
  auto arguments = std::make_shared<InfoArguments>();
  CLI::App* command = app.add_subcommand("info", "Devices, toolkits, versions: what works and what does not");
  command->add_option("--knobs", arguments->knobs, "Print the knob table of a family (or 'all') as Markdown");
  command->add_flag("--json", arguments->json, "Print as JSON");
  command->callback([arguments, &run] { run = [arguments] { return run_info(*arguments); }; });
}

}  // namespace warpsmith::cli
