// Loading and calling.
#include "candidate.h"

#include <dlfcn.h>

#include <stdexcept>

namespace {

constexpr const char* kEntry = "warpsmith_candidate";
constexpr const char* kNondeterminism = "warpsmith_order_nondeterministic";
constexpr std::size_t kReasonBytes = 300;

}  // namespace

void Candidate::load(const std::string& object) {
  void* library = dlopen(object.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw std::runtime_error(std::string("cannot be loaded: ") + dlerror());
  entry_ = reinterpret_cast<CandidateEntry>(dlsym(library, kEntry));
  if (entry_ == nullptr) throw std::runtime_error(std::string("has no function ") + kEntry);
  if (const auto declares = reinterpret_cast<const char* (*)()>(dlsym(library, kNondeterminism))) {
    const char* reason = declares();
    nondeterminism_ = std::string(reason != nullptr ? reason : "no reason given").substr(0, kReasonBytes);
  }
}

int call_candidate(CandidateEntry entry, char* memory, const CallTable& table, std::size_t set, cudaStream_t stream) {
  const CallTable::Set& operands = table.sets.at(set);
  try {
    return entry(memory + operands.a, memory + operands.b, memory + operands.c, table.m, table.n, table.k,
                 table.b_is_col_major, memory + table.workspace, table.workspace_bytes, stream);
  } catch (const std::exception& error) {
    throw std::runtime_error(std::string("it threw an exception: ") + error.what());
  } catch (...) {
    throw std::runtime_error("it threw an exception");
  }
}
