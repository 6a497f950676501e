// Starting, commanding and stopping warpsmith-task-host.
#include "task/foreign_host.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <thread>
#include <utility>

#include "audit/host_link.h"
#include "base/paths.h"
#include "base/text.h"

namespace warpsmith::task {

namespace fs = std::filesystem;

namespace {

constexpr double kStartSeconds = 30;
constexpr int kStopLooks = 50'000;  // for a second or more
constexpr std::chrono::microseconds kStopPause{20};
constexpr std::uint64_t kFurtherMemory = 4ULL << 30;

nlohmann::json to_json(const ArgumentTable& table) {
  auto words = nlohmann::json::array();
  for (const Word& word : table) {
    switch (word.kind) {
      case Word::Kind::address:
        words.push_back({{"address", word.integer}});
        break;
      case Word::Kind::integer:
        words.push_back({{"integer", word.integer}});
        break;
      case Word::Kind::real:
        words.push_back({{"real", word.real}});
        break;
    }
  }
  return words;
}

Status ask(audit::HostLink& link, const std::string& operation, nlohmann::json arguments, double limit_seconds,
           nlohmann::json* reply = nullptr) {
  auto answer = link.ask(operation, std::move(arguments), limit_seconds);
  if (!answer) return answer.error();
  if (const auto error = answer->body.find("error"); error != answer->body.end()) {
    return failure(error->is_string() ? printable(error->get<std::string>(), 300) : "an error without words");
  }
  if (reply != nullptr) *reply = std::move(answer->body);
  return ok_status();
}

// All of its threads: the signal reaches each one by itself.
bool is_stopped(pid_t pid) {
  std::error_code error;
  for (const auto& thread : fs::directory_iterator(fmt::format("/proc/{}/task", pid), error)) {
    std::ifstream file(thread.path() / "stat");
    std::string text;
    std::getline(file, text);
    const std::size_t end = text.rfind(')');
    if (end == std::string::npos || end + 2 >= text.size()) continue;  // it is gone
    const char state = text[end + 2];
    if (state != 'T' && state != 'Z' && state != 'X') return false;
  }
  return true;
}

}  // namespace

Result<SharedMemory> SharedMemory::create(std::int64_t bytes) {
  SharedMemory memory;
  const auto fail = [&] {
    return environment_error(fmt::format("cannot share {} MiB of memory: {}", bytes >> 20, std::strerror(errno)));
  };
  memory.descriptor_ = memfd_create("warpsmith-task", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (memory.descriptor_ < 0 || ftruncate(memory.descriptor_, bytes) != 0) return fail();
  if (fcntl(memory.descriptor_, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) return fail();
  void* data =
      mmap(nullptr, static_cast<std::size_t>(bytes), PROT_READ | PROT_WRITE, MAP_SHARED, memory.descriptor_, 0);
  if (data == MAP_FAILED) return fail();
  memory.data_ = static_cast<std::byte*>(data);
  memory.bytes_ = bytes;
  return memory;
}

SharedMemory::SharedMemory(SharedMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)),
      descriptor_(std::exchange(other.descriptor_, -1)) {}

SharedMemory& SharedMemory::operator=(SharedMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

SharedMemory::~SharedMemory() {
  if (data_ != nullptr) munmap(data_, static_cast<std::size_t>(bytes_));
  if (descriptor_ >= 0) close(descriptor_);
}

ForeignHost::ForeignHost() = default;
ForeignHost::ForeignHost(ForeignHost&& other) noexcept = default;
ForeignHost& ForeignHost::operator=(ForeignHost&& other) noexcept {
  std::swap(scratch_, other.scratch_);
  std::swap(link_, other.link_);
  std::swap(object_, other.object_);
  std::swap(limit_seconds_, other.limit_seconds_);
  std::swap(stopped_, other.stopped_);
  return *this;
}
ForeignHost::~ForeignHost() = default;

Result<ForeignHost> ForeignHost::start(const Options& options, const SharedMemory& memory, const fs::path& object) {
  ForeignHost host;
  host.object_ = object;
  host.limit_seconds_ = options.limit_seconds;
  const auto beside = [](const fs::path& given, const char* name) {
    return given.empty() ? executable_dir() / name : given;
  };
  audit::HostLink::Options link;
  link.host = {beside(options.host, "warpsmith-task-host").string()};
  if (options.confined) {
    auto scratch = ScratchDirectory::create();
    if (!scratch) return scratch.error();
    host.scratch_ = std::move(*scratch);
    link.launcher = beside(options.launcher, "warpsmith-sandbox");
    link.launcher_arguments = {
        "--scratch", host.scratch_->path().string(), "--readable", object.string(), "--readable", link.host.front()};
  }
  link.descriptors = {memory.descriptor()};
  link.start_seconds = kStartSeconds;
  auto started = audit::HostLink::start(link);
  if (!started) return started.error();
  host.link_ = std::make_unique<audit::HostLink>(std::move(*started));
  nlohmann::json reply;
  const Status begun =
      ask(*host.link_, "start",
          {{"bytes", memory.bytes()}, {"confined", options.confined}, {"memory_bytes", kFurtherMemory}}, kStartSeconds,
          &reply);
  if (!begun) return environment_error("warpsmith-task-host: " + begun.error().message);
  if (!options.confined) return host;
  audit::Confinement later;
  later.active = reply.value("active", std::vector<std::string>());
  later.missing = reply.value("missing", std::map<std::string, std::string>());
  host.link_->confine_further(later);
  if (const std::string missing = host.link_->confinement().insufficiency(); !missing.empty()) {
    return environment_error(fmt::format(
        "C++ candidates cannot be confined on this machine ({}); --no-sandbox runs them as they are", missing));
  }
  return host;
}

Status ForeignHost::load(const std::string& entry) {
  return command("load", {{"object", object_.string()}, {"entry", entry}});
}

Status ForeignHost::set_tables(const std::vector<ArgumentTable>& tables) {
  auto list = nlohmann::json::array();
  for (const ArgumentTable& table : tables) list.push_back(to_json(table));
  return command("tables", {{"tables", std::move(list)}});
}

Status ForeignHost::set_order(int slot, const std::vector<int>& order) {
  return command("order", {{"slot", slot}, {"order", order}});
}

Result<double> ForeignHost::run(int slot) {
  double seconds = 0;
  const Status ran = command("run", {{"slot", slot}}, nullptr, &seconds);
  if (!ran) return ran.error();
  return seconds;
}

Result<std::uint64_t> ForeignHost::state() {
  nlohmann::json reply;
  const Status asked = command("state", nlohmann::json::object(), &reply);
  if (!asked) return asked.error();
  const auto hash = reply.find("hash");
  if (hash == reply.end() || !hash->is_number_unsigned()) return failure("an answer without a hash");
  return hash->get<std::uint64_t>();
}

Status ForeignHost::command(const std::string& operation, nlohmann::json arguments, nlohmann::json* reply,
                            double* seconds) {
  const auto start = std::chrono::steady_clock::now();
  if (std::exchange(stopped_, false)) kill(link_->pid(), SIGCONT);
  const Status asked = ask(*link_, operation, std::move(arguments), limit_seconds_, reply);
  if (link_->last_fault()) return asked;  // the process is gone
  kill(link_->pid(), SIGSTOP);
  if (seconds != nullptr) {
    *seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  stopped_ = true;
  const Status stopped = await_stop();
  return asked ? stopped : asked;
}

Status ForeignHost::await_stop() {
  for (int i = 0; i < kStopLooks; ++i) {
    if (is_stopped(link_->pid())) return ok_status();
    std::this_thread::sleep_for(kStopPause);
  }
  return failure("the process does not stop");
}

}  // namespace warpsmith::task
