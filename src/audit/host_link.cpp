// Lines of JSON under deadlines; between two looks at the socket, a look at the process.
#include "audit/host_link.h"

#include <fmt/format.h>
#include <sys/random.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <sstream>

#include "base/text.h"

namespace warpsmith::audit {

namespace {

constexpr double kLookSeconds = 0.05;  // between two looks at a silent process
constexpr std::size_t kQuotedBytes = 120;

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Unforeseeable and within what JSON numbers hold exactly.
std::uint64_t fresh_id() {
  std::uint64_t id = 0;
  if (getrandom(&id, sizeof id, 0) != sizeof id) throw EnvironmentError("the system gives no random numbers");
  return id >> 11;
}

// No exceptions, no deep nesting that would exhaust the stack.
std::optional<nlohmann::json> parse_object(const std::string& line) {
  constexpr int kDeepest = 16;
  bool too_deep = false;
  const auto watch = [&](int depth, nlohmann::json::parse_event_t, nlohmann::json&) {
    too_deep = too_deep || depth > kDeepest;
    return !too_deep;
  };
  nlohmann::json value = nlohmann::json::parse(line, watch, false);
  if (value.is_discarded() || too_deep || !value.is_object()) return std::nullopt;
  return value;
}

Confinement confinement_from(const nlohmann::json& sandbox) {
  Confinement result;
  sandbox.at("active").get_to(result.active);
  sandbox.at("missing").get_to(result.missing);
  return result;
}

}  // namespace

std::optional<ProcessFacts> observe_process(pid_t pid) {
  std::ifstream status(fmt::format("/proc/{}/status", pid));
  if (!status) return std::nullopt;
  ProcessFacts facts;
  for (std::string line; std::getline(status, line);) {
    std::istringstream words(line);
    std::string name;
    std::uint64_t value = 0;
    words >> name >> value;
    if (name == "Threads:") facts.threads = static_cast<int>(value);
    if (name == "RssAnon:" || name == "RssShmem:") facts.resident_bytes += value * 1024;
  }
  return facts;
}

std::string_view to_string(HostFault fault) {
  switch (fault) {
    case HostFault::died:
      return "died";
    case HostFault::hung:
      return "hung";
    case HostFault::flooded:
      return "flooded";
    case HostFault::lied:
      return "lied";
    case HostFault::greedy:
      return "greedy";
  }
  return "unknown";
}

Result<HostLink> HostLink::start(const Options& options) {
  ChildProcess::Options child;
  if (!options.launcher.empty()) {
    child.argv = {options.launcher.string(), "--report"};
    child.argv.insert(child.argv.end(), options.launcher_arguments.begin(), options.launcher_arguments.end());
    child.argv.emplace_back("--");
  }
  child.argv.insert(child.argv.end(), options.host.begin(), options.host.end());
  child.environment = options.environment;
  child.descriptors = options.descriptors;
  child.log = options.log;
  auto spawned = ChildProcess::spawn(child);
  if (!spawned) return spawned.error();
  HostLink link(std::move(*spawned), options.limits);
  link.pid_ = link.child_.pid();
  if (options.launcher.empty()) return link;
  // The launcher speaks first; no foreign code runs yet.
  std::string line;
  if (link.child_.receive(line, options.start_seconds) != ChildProcess::Receive::line) {
    return environment_error("warpsmith-sandbox did not start: " +
                             link.child_.wait_for(1).value_or(ExitStatus{}).describe());
  }
  const auto said = parse_object(line);
  if (!said || !said->contains("sandbox")) {
    return environment_error("no sandbox of this kind: " + (said && said->contains("error")
                                                                ? said->at("error").get<std::string>()
                                                                : printable(line)));
  }
  link.confinement_ = confinement_from(said->at("sandbox"));
  link.pid_ = said->at("sandbox").at("pid").get<pid_t>();
  return link;
}

Error HostLink::fail(HostFault fault, const std::string& detail) {
  if (!fault_) fault_ = fault;
  child_.kill();
  return failure(detail);
}

std::optional<Error> HostLink::exceeds_limits() {
  const auto seen = facts();
  if (!seen) return std::nullopt;  // it ends; the socket will say so
  if (seen->resident_bytes > limits_.memory_bytes) {
    return fail(HostFault::greedy, fmt::format("its process took {} MiB of memory; the limit is {} MiB",
                                               seen->resident_bytes >> 20, limits_.memory_bytes >> 20));
  }
  if (seen->threads > limits_.threads) {
    return fail(HostFault::greedy,
                fmt::format("its process runs {} threads; the limit is {}", seen->threads, limits_.threads));
  }
  return std::nullopt;
}

Result<std::string> HostLink::next_line(double deadline_seconds, double limit_seconds) {
  for (;;) {
    std::string line;
    const double left = deadline_seconds - now_seconds();
    switch (child_.receive(line, std::clamp(left, 0.0, kLookSeconds))) {
      case ChildProcess::Receive::line:
        return line;
      case ChildProcess::Receive::closed: {
        const auto status = child_.wait_for(2);
        if (!status) return fail(HostFault::lied, "its process closed the channel and lives on");
        return fail(HostFault::died, "its process ended: " + status->describe());
      }
      case ChildProcess::Receive::timeout:
        break;
    }
    if (auto error = exceeds_limits()) return *error;
    if (now_seconds() >= deadline_seconds) {
      return fail(HostFault::hung, fmt::format("no answer within {:g} s", limit_seconds));
    }
  }
}

Result<HostReply> HostLink::ask(const std::string& operation, nlohmann::json arguments, double limit_seconds) {
  if (fault_) return failure(fmt::format("its process is gone ({})", to_string(*fault_)));
  const std::uint64_t id = fresh_id();
  arguments["id"] = id;
  arguments["op"] = operation;
  const std::string command = arguments.dump();
  const double start = now_seconds();
  if (!child_.send(command)) {
    const auto status = child_.wait_for(2);
    return fail(HostFault::died, "its process ended: " + (status ? status->describe() : std::string("channel closed")));
  }
  for (;;) {
    const auto line = next_line(start + limit_seconds, limit_seconds);
    if (!line) return line.error();
    const double seconds = now_seconds() - start;
    auto reply = parse_object(*line);
    if (reply && reply->contains("id") && reply->at("id").is_number_unsigned() &&
        reply->at("id").get<std::uint64_t>() == id) {
      return HostReply{std::move(*reply), seconds};
    }
    if (++strays_ > limits_.stray_lines) {
      return fail(HostFault::flooded, fmt::format("more than {} lines that nobody asked for, the last: {}",
                                                  limits_.stray_lines, printable(*line, kQuotedBytes)));
    }
  }
}

int HostLink::take_stray_lines() {
  std::string line;
  while (!fault_ && strays_ <= limits_.stray_lines && child_.receive(line, 0) == ChildProcess::Receive::line) ++strays_;
  return std::exchange(strays_, 0);
}

}  // namespace warpsmith::audit
