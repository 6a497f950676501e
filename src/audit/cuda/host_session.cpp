// Commands to the host; a claim that is no number becomes NaN, which no comparison lets pass.
#include "audit/cuda/host_session.h"

#include <fmt/format.h>
#include <stdlib.h>

#include <cmath>
#include <limits>
#include <sstream>

#include "base/paths.h"
#include "base/text.h"

namespace warpsmith::audit {

namespace fs = std::filesystem;

namespace {

constexpr double kStartSeconds = 30;
constexpr std::uint64_t kFurtherMemory = 16ULL << 30;
constexpr std::size_t kProbeBytes = 2 << 20;

double claimed(const nlohmann::json& body, const char* name) {
  const auto found = body.find(name);
  if (found == body.end() || !found->is_number()) return std::numeric_limits<double>::quiet_NaN();
  const double value = found->get<double>();
  return value >= 0 && value < 1e12 ? value : std::numeric_limits<double>::quiet_NaN();
}

Result<int> code_of(const nlohmann::json& body) {
  const auto found = body.find("code");
  if (found == body.end() || !found->is_number_integer()) return failure("an answer without a code");
  const auto code = found->get<std::int64_t>();
  if (code < std::numeric_limits<int>::min() || code > std::numeric_limits<int>::max()) {
    return failure("an answer with a code out of range");
  }
  return static_cast<int>(code);
}

}  // namespace

Result<nlohmann::json> HostSession::ask(const std::string& operation, nlohmann::json arguments, double* seconds) {
  auto reply = link_.ask(operation, std::move(arguments), limit_seconds_);
  if (!reply) return reply.error();
  if (seconds != nullptr) *seconds = reply->seconds;
  const auto error = reply->body.find("error");
  if (error != reply->body.end()) {
    return failure(error->is_string() ? printable(error->get<std::string>(), 300) : "an error without words");
  }
  return std::move(reply->body);
}

void HostSession::look() {
  strays_ += link_.take_stray_lines();
  if (const auto seen = link_.facts()) most_threads_ = std::max(most_threads_, seen->threads);
}

Status HostSession::load(const fs::path& object) {
  const auto reply = ask("load", {{"object", object.string()}});
  if (!reply) return reply.error();
  const auto reason = reply->find("nondeterminism");
  if (reason != reply->end() && reason->is_string()) nondeterminism_ = printable(reason->get<std::string>(), 300);
  return ok_status();
}

Status HostSession::register_table(const nlohmann::json& table) {
  const auto reply = ask("table", table);
  if (!reply) return reply.error();
  return ok_status();
}

Result<RunReply> HostSession::timed(const std::string& operation, nlohmann::json arguments, int calls) {
  double seconds = 0;
  const auto body = ask(operation, std::move(arguments), &seconds);
  if (!body) return body.error();
  const auto code = code_of(*body);
  if (!code) return code.error();
  RunReply reply;
  reply.code = *code;
  reply.claims = {calls, claimed(*body, "device_us"), claimed(*body, "host_us"), claimed(*body, "settle_us"),
                  seconds * 1e6};
  return reply;
}

Result<RunReply> HostSession::run(const std::string& table, int first, int calls) {
  return timed("run", {{"table", table}, {"first", first}, {"count", calls}}, calls);
}

Result<RunReply> HostSession::run_ordered(const nlohmann::json& before, const nlohmann::json& after, double delay_us) {
  return timed(
      "ordered",
      {{"table", "gate"}, {"first", 0}, {"count", 1}, {"before", before}, {"after", after}, {"delay_us", delay_us}}, 1);
}

Result<RunReply> HostSession::run_queued(const std::string& table, int calls, double delay_us) {
  const nlohmann::json none = nlohmann::json::array();
  return timed(
      "ordered",
      {{"table", table}, {"first", 0}, {"count", calls}, {"before", none}, {"after", none}, {"delay_us", delay_us}},
      calls);
}

Result<CaptureReply> HostSession::capture(const std::string& graph, const std::string& table, int first, int calls) {
  const auto body = ask("capture", {{"graph", graph}, {"table", table}, {"first", first}, {"count", calls}});
  if (!body) return body.error();
  const auto code = code_of(*body);
  if (!code) return code.error();
  CaptureReply reply;
  reply.code = *code;
  const auto nodes = body->find("nodes");
  if (nodes != body->end() && nodes->is_object()) {
    for (const auto& [type, count] : nodes->items()) {
      if (count.is_number_integer()) reply.nodes[printable(type)] = static_cast<int>(count.get<std::int64_t>());
    }
  }
  return reply;
}

Result<RunReply> HostSession::replay(const std::string& graph, int calls) {
  return timed("replay", {{"graph", graph}}, calls);
}

Result<CallFacts> HostSession::observe() {
  const auto body = ask("observe", nlohmann::json::object());
  if (!body) return body.error();
  const auto facts = body->find("facts");
  return call_facts_from(facts == body->end() ? nlohmann::json() : *facts);
}

HostFactory::HostFactory(Options options) : options_(std::move(options)) {
  if (options_.host.empty()) options_.host = executable_dir() / "warpsmith-audit-host";
  if (options_.launcher.empty()) options_.launcher = executable_dir() / "warpsmith-sandbox";
  std::string pattern = (fs::temp_directory_path() / "warpsmith-audit-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) throw EnvironmentError("cannot make a scratch directory in " + pattern);
  scratch_ = pattern;
}

HostFactory::~HostFactory() {
  std::error_code error;
  fs::remove_all(scratch_, error);
}

const std::vector<HostFactory::Profile>& HostFactory::profiles() const {
  // From the strictest on. Containers may forbid namespaces, and drivers may need at their start what is given up.
  static const std::vector<Profile> kConfined = {
      {"with a pid namespace", {}, false},
      {"without a pid namespace", {"--no-pid-namespace"}, false},
      {"with rights given up late", {"--no-pid-namespace", "--late"}, true},
      {"without namespaces", {"--no-namespaces"}, false},
      {"without namespaces, with rights given up late", {"--no-namespaces", "--late"}, true},
  };
  static const std::vector<Profile> kOpen = {{"without a sandbox", {}, false}};
  return options_.sandbox ? kConfined : kOpen;
}

Result<SharingKind> HostFactory::sharing() {
  if (options_.known) return options_.known->sharing;
  std::string reasons;
  for (std::size_t i = 0; i < profiles().size(); ++i) {
    for (const SharingKind kind : {SharingKind::descriptor, SharingKind::ipc}) {
      const Status tried = try_profile(profiles()[i], kind);
      if (tried) {
        options_.known = Known{i, kind, reasons};
        return kind;
      }
      reasons += fmt::format("{}{}, memory by {}: {}", reasons.empty() ? "" : "; ", profiles()[i].name, to_string(kind),
                             tried.error().message);
    }
  }
  return environment_error("foreign code cannot be run here: " + reasons);
}

Status HostFactory::try_profile(const Profile& profile, SharingKind kind) {
  try {
    const SharedMemory memory(kind, kProbeBytes, options_.device);
    const auto session = start(memory, false, profile);
    if (!session) return session.error();
    return ok_status();
  } catch (const std::runtime_error& error) {
    return environment_error(error.what());
  }
}

std::vector<std::string> HostFactory::readable() const {
  std::vector<std::string> paths = options_.readable;
  paths.push_back(options_.host.parent_path().string());
  return paths;
}

Result<std::unique_ptr<HostSession>> HostFactory::start(const SharedMemory& memory, bool watch) {
  return start(memory, watch, profiles()[options_.known->profile]);
}

Result<std::unique_ptr<HostSession>> HostFactory::start(const SharedMemory& memory, bool watch,
                                                        const Profile& profile) {
  HostLink::Options options;
  if (options_.sandbox) {
    options.launcher = options_.launcher;
    options.launcher_arguments = {"--scratch", scratch_.string(), "--keep", "CUDA_MODULE_LOADING"};
    for (const std::string& path : readable()) {
      options.launcher_arguments.insert(options.launcher_arguments.end(), {"--readable", path});
    }
    options.launcher_arguments.insert(options.launcher_arguments.end(), profile.launcher_arguments.begin(),
                                      profile.launcher_arguments.end());
  }
  options.host = {options_.host.string()};
  if (memory.descriptor() >= 0) options.descriptors = {memory.descriptor()};
  if (const char* log = std::getenv("WARPSMITH_WORKER_LOG")) options.log = log;
  auto link = HostLink::start(options);
  if (!link) return link.error();
  auto session = std::make_unique<HostSession>(std::move(*link), kStartSeconds);
  const auto libraries = watch ? cupti_libraries() : std::vector<std::string>{};
  const auto started =
      session->ask("start", {{"device", options_.device}, {"memory", memory.ticket()}, {"watch", libraries}});
  if (!started) return environment_error(started.error().message);
  if (watch) session->watch_error_ = started->at("watch_error").get<std::string>();
  session->threads_before_ = session->most_threads_ = session->link_.facts().value_or(ProcessFacts{}).threads;
  nlohmann::json lock = {{"filter", options_.sandbox}, {"memory_bytes", kFurtherMemory}};
  if (profile.late) lock["late"] = {{"scratch", scratch_.string()}, {"readable", readable()}};
  const auto locked = session->ask("lock", std::move(lock));
  if (!locked) return environment_error(locked.error().message);
  Confinement filtered;
  locked->at("active").get_to(filtered.active);
  locked->at("missing").get_to(filtered.missing);
  session->link_.confine_further(filtered);
  if (const std::string missing = session->link_.confinement().insufficiency(); options_.sandbox && !missing.empty()) {
    return environment_error("no sufficient sandbox: " + missing);
  }
  session->limit_seconds_ = options_.limit_seconds;
  return session;
}

std::vector<std::string> cupti_libraries() {
  std::vector<std::string> found;
  const auto add_from = [&](const fs::path& directory) {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(directory, error)) {
      if (entry.path().filename().string().starts_with("libcupti.so")) found.push_back(entry.path().string());
    }
  };
  add_from("/usr/local/cuda/extras/CUPTI/lib64");
  add_from("/usr/local/cuda/lib64");
  std::istringstream path(std::getenv("PATH") != nullptr ? std::getenv("PATH") : "");
  for (std::string directory; std::getline(path, directory, ':');) {
    std::error_code error;
    if (!fs::exists(fs::path(directory) / "python3", error)) continue;
    for (const auto& python : fs::directory_iterator(fs::path(directory).parent_path() / "lib", error)) {
      if (!python.path().filename().string().starts_with("python3")) continue;
      const fs::path wheels = python.path() / "site-packages" / "nvidia";
      for (const auto& wheel : fs::directory_iterator(wheels, error)) add_from(wheel.path() / "lib");
    }
  }
  for (const char* name : {"libcupti.so.13", "libcupti.so.12", "libcupti.so"}) found.emplace_back(name);
  return found;
}

}  // namespace warpsmith::audit
