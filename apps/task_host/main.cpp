// warpsmith-task-host: the process that runs a C++ kernel or reference of a task, for a worker over file descriptor 3,
// on the memory behind descriptor 4. It holds nothing worth forging: inputs, references, the clock and the verdict are
// the worker's. Not for people.
#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "audit/sandbox.h"
#include "base/subprocess.h"

#ifdef __SANITIZE_ADDRESS__
// A candidate's crash reaches the parent as the signal that it is, in this build too.
extern "C" const char* __asan_default_options() {
  return "handle_segv=0:handle_sigbus=0:handle_sigfpe=0:handle_sigill=0:detect_leaks=0";
}
#endif

namespace {

using nlohmann::json;
using namespace warpsmith;

constexpr int kMemoryDescriptor = ChildProcess::kChannelFd + 1;

// The object's own writable memory: what it could keep from call to call.
struct Segments {
  ElfW(Addr) base = 0;
  std::vector<std::pair<const unsigned char*, std::size_t>> parts;
};

int collect(dl_phdr_info* info, std::size_t, void* data) {
  auto& segments = *static_cast<Segments*>(data);
  if (info->dlpi_addr != segments.base) return 0;
  ElfW(Addr) constant_end = 0;  // made read-only after relocation
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = info->dlpi_phdr[i];
    if (header.p_type == PT_GNU_RELRO) constant_end = header.p_vaddr + header.p_memsz;
  }
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = info->dlpi_phdr[i];
    if (header.p_type != PT_LOAD || (header.p_flags & PF_W) == 0) continue;
    const ElfW(Addr) begin = std::max(header.p_vaddr, constant_end), end = header.p_vaddr + header.p_memsz;
    if (begin >= end) continue;
    segments.parts.emplace_back(reinterpret_cast<const unsigned char*>(segments.base + begin), end - begin);
  }
  return 1;
}

class Host {
 public:
  int serve() {
    std::string line;
    while (channel_.receive(line)) {
      const json command = json::parse(line);
      json reply = answer(command);
      reply["id"] = command.at("id");
      if (!channel_.send(reply.dump(-1, ' ', false, json::error_handler_t::replace))) break;
    }
    return 0;
  }

 private:
  json answer(const json& command) {
    try {
      const auto operation = command.at("op").get<std::string>();
      if (operation == "run") return run(command);
      if (operation == "order") return set_order(command);
      if (operation == "tables") return set_tables(command);
      if (operation == "state") return {{"hash", hash_of_variables()}};
      if (operation == "load") return load(command);
      if (operation == "start") return start(command);
      return {{"error", "unknown operation " + operation}};
    } catch (const std::exception& error) {
      return {{"error", error.what()}};
    }
  }

  json start(const json& command) {
    const auto bytes = command.at("bytes").get<std::size_t>();
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, kMemoryDescriptor, 0);
    if (memory == MAP_FAILED) throw std::runtime_error(fmt::format("cannot map {} MiB of memory", bytes >> 20));
    memory_ = static_cast<std::byte*>(memory);
    audit::Confinement confinement;
    if (command.at("confined").get<bool>()) {
      confinement = audit::filter_system_calls(false);
      audit::limit_further_memory(command.at("memory_bytes").get<std::uint64_t>());
    }
    return {{"active", confinement.active}, {"missing", confinement.missing}};
  }

  json load(const json& command) {
    const auto object = command.at("object").get<std::string>();
    void* handle = dlopen(object.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) throw std::runtime_error(dlerror());
    const auto entry = command.at("entry").get<std::string>();
    entry_ = reinterpret_cast<Entry>(dlsym(handle, entry.c_str()));
    if (entry_ == nullptr) throw std::runtime_error(fmt::format("the source has no extern \"C\" function '{}'", entry));
    link_map* map = nullptr;
    if (dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0) segments_.base = map->l_addr;
    dl_iterate_phdr(collect, &segments_);
    return json::object();
  }

  json set_tables(const json& command) {
    tables_.clear();
    for (const json& words : command.at("tables")) {
      std::vector<std::uint64_t>& table = tables_.emplace_back();
      for (const json& word : words) table.push_back(value_of(word));
    }
    return json::object();
  }

  // A member of the struct Arguments: all are eight bytes.
  std::uint64_t value_of(const json& word) const {
    if (const auto address = word.find("address"); address != word.end()) {
      return reinterpret_cast<std::uintptr_t>(memory_ + address->get<std::int64_t>());
    }
    if (const auto real = word.find("real"); real != word.end()) {
      const double number = real->get<double>();
      std::uint64_t bits = 0;
      std::memcpy(&bits, &number, sizeof bits);
      return bits;
    }
    return static_cast<std::uint64_t>(word.at("integer").get<std::int64_t>());
  }

  json set_order(const json& command) {
    auto order = command.at("order").get<std::vector<std::size_t>>();
    for (const std::size_t table : order) {
      if (table >= tables_.size()) throw std::runtime_error("an order of tables that are not there");
    }
    orders_[command.at("slot").get<int>()] = std::move(order);
    return json::object();
  }

  json run(const json& command) {
    for (const std::size_t table : orders_.at(command.at("slot").get<int>())) entry_(tables_[table].data());
    return json::object();
  }

  std::uint64_t hash_of_variables() const {
    std::uint64_t hash = 0xcbf29ce484222325ULL;
    for (const auto& [begin, bytes] : segments_.parts) {
      for (std::size_t i = 0; i < bytes; ++i) hash = (hash ^ begin[i]) * 0x100000001b3ULL;
    }
    return hash >> 1;  // within what every JSON number holds
  }

  using Entry = void (*)(const void*);
  ParentChannel channel_;
  std::byte* memory_ = nullptr;
  Entry entry_ = nullptr;
  Segments segments_;
  std::vector<std::vector<std::uint64_t>> tables_;
  std::map<int, std::vector<std::size_t>> orders_;  // by slot
};

}  // namespace

int main() {
  try {
    return Host().serve();
  } catch (const std::exception& error) {
    fmt::print(stderr, "warpsmith-task-host: {}\n", error.what());
    return 3;
  }
}
