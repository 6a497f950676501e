// `warpsmith serve`: the reward server.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "base/paths.h"
#include "cli.h"
#include "devices.h"
#include "search/trials.h"
#include "serve/server.h"

namespace warpsmith::cli {

namespace {

constexpr double kMostGflopCpu = 100, kMostGflopCuda = 1e5;  // of a problem, unless asked otherwise

struct ServeArguments {
  DeviceOptions device;
  std::string gpus;
  std::string host = "127.0.0.1";
  int port = 5000;
  std::string token_file, queue, archive, problem, effort;
  double alpha = train::RewardConfig{}.alpha, beta = serve::kDefaultBeta;
  int jobs = 0;
  std::int64_t max_queue = 10'000;
  int max_batch = 1024, max_connections = 512;
  double max_body_mib = 16, max_gflop = 0;
  std::string reward_wait = "170s", drain = "30s";
  bool paired = false, quiet = false;
};

// What can be said of the arguments before a device is opened.
Status fill(const ServeArguments& arguments, serve::ServerOptions& options) {
  auto token = serve::Token::load(arguments.token_file);
  if (!token) return token.error();
  const auto loopback = serve::is_loopback(arguments.host);
  if (!loopback) return loopback.error();
  if (!*loopback && !*token) {
    return bad_input(
        fmt::format("--host {} is reached from other machines; accepted with a token only (--token-file, or "
                    "{} in the environment)",
                    arguments.host, serve::kTokenVariable));
  }
  options.service.token = std::move(*token);
  options.http.address = arguments.host;
  options.http.port = arguments.port;
  options.http.most_connections = arguments.max_connections;
  options.http.most_body_bytes = static_cast<std::uint64_t>(arguments.max_body_mib * (1 << 20));
  options.service.most_candidates = static_cast<std::size_t>(arguments.max_batch);
  options.service.reward.alpha = arguments.alpha;
  options.service.reward.beta = arguments.beta;
  options.dispatch.most_queued = arguments.max_queue;
  const auto reward_wait = parse_duration(arguments.reward_wait);
  if (!reward_wait) return reward_wait.error();
  options.service.reward_wait_seconds = *reward_wait;
  const auto drain = parse_duration(arguments.drain);
  if (!drain) return drain.error();
  options.drain_seconds = *drain;
  if (!arguments.problem.empty()) {
    const auto problem = parse_problem(arguments.problem);
    if (!problem) return problem.error();
    options.service.site.problem = *problem;
  }
  options.queue = arguments.queue.empty() ? data_dir() / "serve.sqlite" : std::filesystem::path(arguments.queue);
  options.archive =
      arguments.archive.empty() ? data_dir() / "archive.sqlite" : std::filesystem::path(arguments.archive);
  options.cache = cache_dir();
  options.paired = arguments.paired;
  return ok_status();
}

// Of the i-th device: by its number where numbers were given.
std::string device_name(const ServeArguments& arguments, std::size_t i) {
  if (arguments.gpus.empty()) return fmt::format("cuda:{}", arguments.device.device);
  if (arguments.gpus == "all") return fmt::format("cuda:{}", i);
  std::string_view list = arguments.gpus;
  for (; i > 0; --i) list.remove_prefix(list.find(',') + 1);
  return fmt::format("cuda:{}", list.substr(0, list.find(',')));
}

Status open(const ServeArguments& arguments, serve::ServerOptions& options) {
  auto devices = open_devices(arguments.device, arguments.gpus, 1);
  if (!devices) return devices.error();
  options.target = devices->front().target;
  options.threads = devices->front().threads;
  const Machine machine = devices->front().evaluator->machine();
  const bool cpu = options.target == Target::cpu;
  if (!devices->front().note.empty() && !arguments.quiet) {
    fmt::print(stderr, "serving this CPU ({})\n", devices->front().note);
  }
  for (std::size_t i = 0; i < devices->size(); ++i) {
    options.devices.push_back({cpu ? "cpu" : device_name(arguments, i), std::move((*devices)[i].evaluator)});
  }
  options.effort = search_effort(machine);
  options.effort.screening = false;  // there is no best so far that a short look could be held against
  if (!arguments.effort.empty()) {
    const auto seconds = parse_duration(arguments.effort);
    if (!seconds) return seconds.error();
    options.effort.seconds = *seconds;
  }
  const int jobs = arguments.jobs > 0 ? arguments.jobs : available_threads();
  options.dispatch.compile_jobs = std::max(1, jobs / static_cast<int>(options.devices.size()));
  options.dispatch.quiet_while_measuring = cpu;
  const double most_gflop = arguments.max_gflop > 0 ? arguments.max_gflop : (cpu ? kMostGflopCpu : kMostGflopCuda);
  options.service.site.most_flops = most_gflop * 1e9;
  if (!options.service.site.problem) return ok_status();
  const auto problem = serve::read_problem(to_string(*options.service.site.problem), options.service.site);
  return problem ? ok_status() : Status(problem.error());
}

// One line.
std::string waiting_elsewhere(const std::map<std::string, std::int64_t>& elsewhere) {
  std::string sites;
  for (const auto& [site, count] : elsewhere)
    sites += fmt::format("{}{} for {}", sites.empty() ? "" : "; ", count, site);
  return fmt::format("candidates in the queue that wait for other machines, targets or numbers of threads: {}", sites);
}

Result<int> serve_devices(const ServeArguments& arguments) {
  serve::ServerOptions options;
  if (const Status status = fill(arguments, options); !status) return status.error();
  if (const Status status = open(arguments, options); !status) return status.error();
  const bool open_to_all = !options.service.token;
  const auto started = [&](const serve::Started& server) {
    if (arguments.quiet) return;
    if (!server.elsewhere.empty()) fmt::print(stderr, "{}\n", waiting_elsewhere(server.elsewhere));
    const bool v6 = arguments.host.find(':') != std::string::npos;
    fmt::print("listening on http://{}{}{}:{} ({})\n", v6 ? "[" : "", arguments.host, v6 ? "]" : "", server.port,
               open_to_all ? "no token" : "token needed");
    std::fflush(stdout);
  };
  const Status served = serve::run_server(std::move(options), started, interrupted());
  if (!served) return served.error();
  return kExitOk;
}

}  // namespace

void add_serve_command(CLI::App& app, Run& run) {
  auto arguments = std::make_shared<ServeArguments>();
  CLI::App* command =
      app.add_subcommand("serve", "Serve rewards to trainers: submit candidates, get measured verdicts");
  command->footer(
      "Speaks OpenRLHF's remote-reward protocol (POST /get_reward) and a JSON API (GET /openapi.json). What was "
      "accepted\n"
      "is kept over any end of the server. SIGTERM ends it when what is being measured and waited for is done.\n"
      "A token is read from --token-file or from WARPSMITH_SERVE_TOKEN; without one only this machine is served.");
  arguments->device.add_to(*command);
  command->add_option("--gpus", arguments->gpus, "CUDA devices of one type: all, or numbers such as 0,1");
  command->add_option("--host", arguments->host, "Address to listen on")->capture_default_str();
  command->add_option("--port", arguments->port, "Port; 0: any that is free")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  command->add_option("--token-file", arguments->token_file, "File with the token, readable by its owner alone");
  command->add_option("--problem", arguments->problem, "Problem of requests that name none: \"64x64x64 nn f16 f32\"");
  command->add_option("--queue", arguments->queue, "Queue file (default: serve.sqlite in the data directory)");
  command->add_option("--archive", arguments->archive, "Archive file (default: archive.sqlite in the data directory)");
  command->add_option("--effort", arguments->effort, "Time to spend on timing a candidate (default: as optimize)");
  command->add_flag("--paired", arguments->paired,
                    "Speed-ups from runs in pairs with the baseline (takes about twice as long)");
  command->add_option("--alpha", arguments->alpha, "Reward: weight of the numerical difference over the gate's bound")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
  command->add_option("--beta", arguments->beta, "Reward: weight of a token of code")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
  command->add_option("--jobs", arguments->jobs, "Compiles in parallel (default: one a CPU)")
      ->check(CLI::Range(1, 1024));
  command->add_option("--max-queue", arguments->max_queue, "Candidates that may wait")
      ->check(CLI::Range(1, 10'000'000))
      ->capture_default_str();
  command->add_option("--max-body", arguments->max_body_mib, "Largest request, in MiB")
      ->check(CLI::Range(0.001, 1024.0))
      ->capture_default_str();
  command->add_option("--max-batch", arguments->max_batch, "Candidates of one request")
      ->check(CLI::Range(1, 100'000))
      ->capture_default_str();
  command->add_option("--max-connections", arguments->max_connections, "Connections at a time")
      ->check(CLI::Range(1, 100'000))
      ->capture_default_str();
  command->add_option("--max-gflop", arguments->max_gflop, "Largest problem (default: 100 on a CPU, 100000 on a GPU)")
      ->check(CLI::Range(1e-6, 1e9));
  command->add_option("--reward-wait", arguments->reward_wait, "Longest wait of /get_reward")->capture_default_str();
  command->add_option("--drain", arguments->drain, "Longest time from SIGTERM until waiting clients are sent away")
      ->capture_default_str();
  command->add_flag("--quiet", arguments->quiet, "No lines but errors");
  command->callback([&run, arguments] {
    run = [arguments] {
      const auto code = serve_devices(*arguments);
      return code ? *code : report(code.error());
    };
  });
}

}  // namespace warpsmith::cli
