// From options to a session with models.
#include "llm_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "base/paths.h"
#include "base/scratch.h"
#include "base/subprocess.h"
#include "base/text.h"
#include "llm/profile.h"
#include "progress.h"
#include "report/table.h"
#include "search/kernel_files.h"
#include "search/named_candidate.h"
#include "search/trials.h"

namespace warpsmith::cli {

namespace {

// Only the variable's name is ever given on a command line.
std::string key_of(const std::string& variable) {
  const char* key = std::getenv(variable.c_str());
  return key == nullptr ? std::string() : std::string(key);
}

Result<std::unique_ptr<llm::ChatClient>> make_client(const LlmOptions& options, const std::string& url,
                                                     const std::string& key_variable,
                                                     const std::shared_ptr<const llm::HttpTransport>& transport) {
  const auto timeout = parse_duration(options.timeout);
  if (!timeout) return timeout.error();
  llm::ChatOptions chat;
  chat.url = url;
  if (!key_variable.empty()) chat.key = key_of(key_variable);
  chat.stream = !options.no_stream;
  chat.total_seconds = *timeout;
  chat.silence_seconds = std::min(chat.silence_seconds, *timeout);
  return llm::ChatClient::make(chat, transport);
}

constexpr int kLaunchesBefore = 20;  // that the gates make, of which the first are cold
constexpr double kProfileSeconds = 120;

Result<std::string> take_profile(const Archive::Scope& scope, const std::string& name, Archive& archive) {
  const auto candidate = named_candidate(name, scope, &archive);
  if (!candidate) return candidate.error();
  const auto scratch = ScratchDirectory::create();
  if (!scratch) return scratch.error();
  const auto kernel = write_kernel(scratch->path(), scope, name, *candidate, &archive);
  if (!kernel) return kernel.error();
  std::vector<std::string> entries;
  for (const KernelLaunch& launch : std::get<CudaLaunch>(candidate->launch).kernels) entries.push_back(launch.entry);
  const Problem& problem = scope.problem;
  const std::vector<std::string> bench = {(executable_dir() / "warpsmith").string(),
                                          "bench",
                                          "--candidate",
                                          kernel->string(),
                                          fmt::format("{}x{}x{}", problem.m, problem.n, problem.k),
                                          "--layout",
                                          std::string(to_string(problem.layout)),
                                          "--type",
                                          std::string(to_string(problem.element)),
                                          "--target",
                                          std::string(to_string(scope.target)),
                                          "--verify",
                                          "--json"};
  std::error_code ignored;
  const std::filesystem::path usual = "/usr/local/cuda/bin/ncu";
  ProcessRequest request;
  request.argv = llm::profile_command(std::filesystem::exists(usual, ignored) ? usual.string() : "ncu", entries,
                                      kLaunchesBefore, bench);
  request.limits.wall_seconds = kProfileSeconds;
  const auto output = run_process(request);
  if (!output) return output.error();
  return llm::describe_profile(output->out + output->err);
}

}  // namespace

void LlmOptions::add_to(CLI::App& command) {
  const auto group = kGroup;
  const auto add = [&](const char* name, auto& value, const char* meaning) {
    return command.add_option(name, value, meaning)->group(group);
  };
  add("--llm-url", url, "OpenAI-compatible endpoint: http://HOST:PORT/v1 or https://HOST/v1");
  add("--llm-model", models, "Model, or MODEL:WEIGHT; several share the requests by weight")->allow_extra_args(false);
  add("--llm-key-env", key_variable, "Environment variable that holds the key; unset: none is sent")
      ->capture_default_str();
  add("--llm-requests", limits.requests, "Stop after this many HTTP requests; 0: no limit")
      ->check(CLI::NonNegativeNumber);
  add("--llm-tokens", limits.tokens, "Stop after this many tokens, prompts and answers; 0: no limit")
      ->check(CLI::NonNegativeNumber);
  add("--llm-cost", limits.cost, "Stop at this cost, by --llm-price; 0: no limit")->check(CLI::NonNegativeNumber);
  add("--llm-price", prices,
      "Price of a million tokens, of all models or of one (the checker's too): IN,OUT or MODEL=IN,OUT")
      ->allow_extra_args(false);
  add("--llm-temperature", temperature, "Sampling temperature")->check(CLI::Range(0.0, 2.0))->capture_default_str();
  add("--llm-max-tokens", max_tokens, "Longest answer")->check(CLI::Range(1, 1 << 20))->capture_default_str();
  add("--llm-parallel", parallel, "Prompts under way at once")->check(CLI::Range(1, 64))->capture_default_str();
  add("--llm-exemplars", exemplars, "Measured kernels that a prompt shows")
      ->check(CLI::Range(0, 8))
      ->capture_default_str();
  add("--llm-first", first_recipes, "Recipes to measure first where the archive knows too few kernels")
      ->check(CLI::Range(0, 64))
      ->capture_default_str();
  command.add_flag("--llm-no-stream", no_stream, "Ask for whole answers instead of streams")->group(group);
  add("--llm-timeout", timeout, "Longest wait for one answer")->capture_default_str();
  add("--llm-prompts", prompts,
      "Directory of prompt templates; default: prompts/ in the data directory, then beside the program");
  add("--index", index,
      "Index to retrieve from (warpsmith index); default: the one in the data directory, where there is one");
  add("--retrieve", retrieve, "Further words to retrieve by");
  add("--passages", passages, "Passages that a prompt quotes")->check(CLI::Range(0, 16))->capture_default_str();
  add("--checker-url", checker_url, "Endpoint of the model that checks leaps; default: --llm-url");
  add("--checker-key-env", checker_key_variable,
      "Environment variable with the key of --checker-url; default: --llm-key-env where both are one server, else "
      "none");
  add("--checker-model", checker_model, "Model that checks leaps; without one, rules do");
  command.add_flag("--llm-profile", profile, "Profile exemplars with Nsight Compute (CUDA)")->group(group);
  command.add_flag("--dry-run", dry_run, "Print the prompt that would be sent, and send nothing")->group(group);
}

Result<std::unique_ptr<LlmSearch>> LlmSearch::prepare(const LlmOptions& options) {
  auto search = std::make_unique<LlmSearch>();
  search->options_ = options;
  if (options.url.empty() && !options.dry_run)
    return bad_input("policy llm needs --llm-url; accepted: http://HOST:PORT/v1");
  if (options.models.empty() && !options.dry_run) return bad_input("policy llm needs --llm-model NAME");
  for (const std::string& text : options.models) {
    auto model = llm::parse_model(text);
    if (!model) return model.error();
    search->models_.push_back(std::move(*model));
  }
  if (search->models_.empty()) search->models_.push_back({"none", 1, 0, 0});
  if (const Status priced = search->set_prices(); !priced) return priced.error();
  auto prompts = llm::Prompts::find(options.prompts);
  if (!prompts) return prompts.error();
  search->prompts_ = std::move(*prompts);
  std::error_code ignored;
  const std::filesystem::path path =
      options.index.empty() ? llm::default_index_path() : std::filesystem::path(options.index);
  if (!options.index.empty() && !std::filesystem::exists(path, ignored)) {
    return bad_input(fmt::format("there is no index {}; make one with: warpsmith index PATH --index {}", path.string(),
                                 path.string()));
  }
  if (std::filesystem::exists(path, ignored)) {
    auto index = llm::TextIndex::open(path);
    if (!index) return index.error();
    search->index_ = std::move(*index);
  }
  const std::shared_ptr<const llm::HttpTransport> transport = llm::open_transport();
  auto client =
      make_client(options, options.url.empty() ? "http://localhost" : options.url, options.key_variable, transport);
  if (!client) return client.error();
  search->client_ = std::move(*client);
  if (!options.checker_model.empty()) {
    const std::string& url = options.checker_url.empty() ? options.url : options.checker_url;
    std::string key_variable = options.checker_key_variable;
    // A key is for the server that it was made for.
    if (key_variable.empty() && llm::same_origin(url, options.url)) key_variable = options.key_variable;
    auto checker = make_client(options, url, key_variable, transport);
    if (!checker) return checker.error();
    search->checker_ = std::move(*checker);
  }
  search->transport_ = transport->name();
  return search;
}

// The checker is a model like the others: it is paid for, and counts.
Status LlmSearch::set_prices() {
  std::vector<llm::ModelChoice> all = models_;
  if (!options_.checker_model.empty()) all.push_back({options_.checker_model, 1, 0, 0});
  for (const std::string& price : options_.prices) {
    if (const Status status = llm::apply_price(price, all); !status) return status;
  }
  if (!options_.checker_model.empty()) {
    checker_model_ = all.back();
    all.pop_back();
  }
  models_ = std::move(all);
  const bool priced = std::any_of(models_.begin(), models_.end(), [](const llm::ModelChoice& model) {
    return model.input_price > 0 || model.output_price > 0;
  });
  if (options_.limits.cost > 0 && !priced) return bad_input("--llm-cost needs --llm-price IN,OUT");
  return ok_status();
}

llm::SessionOptions LlmSearch::session(const LlmScope& scope) const {
  llm::SessionOptions session;
  session.scope = scope.scope;
  session.models = models_;
  session.temperature = options_.temperature;
  session.max_tokens = options_.max_tokens;
  session.limits = options_.limits;
  session.budget_seconds = scope.budget_seconds;
  session.max_candidates = scope.max_candidates;
  session.parallel = options_.parallel;
  session.exemplars = static_cast<std::size_t>(options_.exemplars);
  session.first_recipes = options_.first_recipes;
  session.seed = scope.seed;
  session.reference_us = scope.reference_us;
  session.reference = scope.reference;
  session.index = index_.get();
  session.passages = static_cast<std::size_t>(options_.passages);
  session.retrieve = options_.retrieve;
  session.checker = checker_.get();
  session.checker_model = checker_model_;
  return session;
}

Result<llm::SessionResult> LlmSearch::run(const LlmScope& scope, const Compiler& compiler, Evaluator& evaluator,
                                          Archive& archive, bool quiet) {
  llm::SessionOptions options = session(scope);
  if (options_.profile && !is_cuda(scope.scope.target)) {
    return bad_input("--llm-profile needs a CUDA target: Nsight Compute profiles GPU kernels");
  }
  if (options_.profile) {
    options.profile = [&](const std::string& name) { return profile(scope, name, archive, quiet); };
  }
  const auto judge = llm::make_live_judge(scope.scope.problem, compiler, evaluator, search_effort(evaluator.machine()));
  ProgressLine line(quiet);
  const auto show = [&](const OptimizeProgress& progress, const std::string& doing) {
    std::string text = fmt::format("{:.0f} s left  {} tried",
                                   std::max(0.0, progress.budget_seconds - progress.elapsed_seconds), progress.tried);
    if (progress.best_us) {
      text += fmt::format("  best {} us", significant(*progress.best_us));
      if (scope.reference_us > 0) text += fmt::format(" ({:.2f}x)", scope.reference_us / *progress.best_us);
      text += "  " + progress.best_recipe;
    }
    if (!doing.empty()) text += "  " + doing;
    line.update(progress.elapsed_seconds / progress.budget_seconds, text);
  };
  return llm::run_session(options, *prompts_, *client_, *judge, archive, show, interrupted());
}

// Of a kernel by its name in the archive, which a second warpsmith launches under Nsight Compute. Empty where that is
// impossible, which the first time is said.
std::string LlmSearch::profile(const LlmScope& scope, const std::string& name, Archive& archive, bool quiet) {
  const auto [entry, fresh] = profiles_.emplace(to_string(scope.scope.problem) + " " + name, std::string());
  if (!fresh || profiling_failed_) return entry->second;
  auto text = take_profile(scope.scope, name, archive);
  if (text) return entry->second = std::move(*text);
  profiling_failed_ = text.error().kind == ErrorKind::environment;
  if (!quiet) fmt::print(stderr, "no profile of {}: {}\n", short_name(name), text.error().message);
  return {};
}

Result<std::string> LlmSearch::dry_run(const LlmScope& scope, Archive& archive) {
  const auto messages = llm::first_prompt(session(scope), *prompts_, *client_, archive);
  if (!messages) return messages.error();
  std::string text;
  std::size_t bytes = 0;
  for (const llm::Message& message : *messages) {
    text += fmt::format("===== {} =====\n{}\n", message.role, message.content);
    bytes += message.content.size();
  }
  text += fmt::format("===== {} bytes, about {} tokens; templates {}; nothing was sent =====\n", bytes, bytes / 4,
                      prompts_->directory.string());
  return text;
}

}  // namespace warpsmith::cli
