// Loads candidates with dlopen, runs them between guard pages, and times them over rotating operand sets.
#include "evaluate/cpu/cpu_backend.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <immintrin.h>
#include <link.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <ctime>
#include <fstream>
#include <thread>

#include "evaluate/cpu/affinity.h"
#include "evaluate/cpu/machine_facts.h"
#include "evaluate/gates.h"

namespace warpsmith {

namespace {

constexpr std::int64_t kKeptOperandBytes = 64LL << 20;  // of one input: larger ones are generated again
constexpr std::int64_t kUnknownL3Bytes = 32LL << 20;
constexpr double kBatchUs = 500;  // shortest batch: thousands of clock resolutions
constexpr double kCalibrationUs = 150;
constexpr int kMostLaunches = 1 << 20;
constexpr std::uint32_t kDefaultMxcsr = 0x1f80;  // round to nearest, subnormals kept, exceptions masked

// 64-bit hash of memory: four multiply-mix lanes over 32-byte steps.
std::uint64_t hash_bytes(const void* data, std::size_t bytes) {
  const auto* at = static_cast<const std::uint8_t*>(data);
  std::uint64_t lanes[4] = {1, 2, 3, 4};
  std::size_t done = 0;
  for (; done + 32 <= bytes; done += 32) {
    for (int lane = 0; lane < 4; ++lane) {
      std::uint64_t word = 0;
      std::memcpy(&word, at + done + 8 * lane, 8);
      lanes[lane] = (lanes[lane] ^ word) * 0x9e3779b97f4a7c15ULL;
      lanes[lane] ^= lanes[lane] >> 29;
    }
  }
  std::uint64_t result = bytes;
  for (; done < bytes; ++done) result = inputs::mix(result + at[done] + 1);
  for (const std::uint64_t lane : lanes) result = inputs::mix(result ^ lane);
  return result;
}

// Of a loaded shared object's variables: its writable segments without what the loader itself has relocated.
std::uint64_t hash_writable_data(void* library) {
  struct Search {
    ElfW(Addr) base;
    std::uint64_t hash = 0;
  };
  link_map* map = nullptr;
  if (dlinfo(library, RTLD_DI_LINKMAP, &map) != 0) throw EnvironmentError(dlerror());
  Search search{map->l_addr};
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* data) {
        auto& found = *static_cast<Search*>(data);
        if (info->dlpi_addr != found.base) return 0;
        ElfW(Addr) relocated_end = 0;
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const auto& header = info->dlpi_phdr[i];
          if (header.p_type == PT_GNU_RELRO) relocated_end = header.p_vaddr + header.p_memsz;
        }
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const auto& header = info->dlpi_phdr[i];
          if (header.p_type != PT_LOAD || (header.p_flags & PF_W) == 0) continue;
          const ElfW(Addr) end = header.p_vaddr + header.p_memsz;
          const ElfW(Addr) begin = std::min(std::max<ElfW(Addr)>(header.p_vaddr, relocated_end), end);
          found.hash = inputs::mix(found.hash ^ hash_bytes(reinterpret_cast<const void*>(info->dlpi_addr + begin),
                                                           static_cast<std::size_t>(end - begin)));
        }
        return 1;
      },
      &search);
  return search.hash;
}

void meet(void* barrier) { static_cast<SpinBarrier*>(barrier)->wait(); }

double now_us() {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double process_cpu_ms() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) * 1e-6;
}

// A library's threads spin for a while after their work; waits until the whole process is idle.
void wait_until_quiet() {
  constexpr int kMostNaps = 100;
  for (int nap = 0; nap < kMostNaps; ++nap) {
    const double before = process_cpu_ms();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (process_cpu_ms() - before < 0.2) return;
  }
}

Error no_pdl() { return failure("programmatic dependent launch exists on CUDA devices only"); }

}  // namespace

CpuBackend::CpuBackend(int threads) : pool_(threads), machine_(measure_machine(pool_)) {}

CpuBackend::~CpuBackend() {
  unload();
  drop_kept();
}

Status CpuBackend::prepare(const Problem& problem, std::uint64_t seed) {
  if (problem.scaled() || !problem.packed() || problem.accumulator != AccumulatorType::f32) {
    return bad_input("the CPU target takes packed operands, without alpha and beta, and accumulates in f32");
  }
  unload();
  drop_kept();
  settle(0);  // while the last problem's baselines are still there to ask
  a_ = GuardedBuffer();
  b_ = GuardedBuffer();
  c_ = GuardedBuffer();
  current_ = nullptr;
  entries_.clear();
  sets_.reset();
  baselines_.reset();
  armed_.clear();
  cold_launches_.clear();
  problem_ = problem;
  timing_seed_ = seed;
  try {
    sets_ = std::make_unique<TimingSets>(problem, seed, machine_.l3_bytes > 0 ? machine_.l3_bytes : kUnknownL3Bytes);
    entry_for(InputKind::normal, seed);   // the reference of what is timed
    sets_->a(problem.a_is_k_major(), 0);  // made now, not in the first candidate's time
    sets_->b(problem.b_is_k_major(), 0);
    sets_->poison(TimingSets::Owner::candidate, kPoisonPatterns[0]);
  } catch (const std::bad_alloc&) {
    problem_.reset();
    return environment_error(fmt::format("not enough memory for {}", to_string(problem)));
  }
  return ok_status();
}

void CpuBackend::make_operands(InputKind kind, std::uint64_t seed, std::uint16_t* a, std::uint16_t* b) const {
  const InputSpec spec{kind, seed, problem_->m, problem_->n, problem_->k, problem_->element};
  generate_a(spec, problem_->a_is_k_major(), a);
  generate_b(spec, problem_->b_is_k_major(), b);
}

CpuBackend::Entry& CpuBackend::entry_for(InputKind kind, std::uint64_t seed) {
  const auto [found, is_new] = entries_.try_emplace({kind, seed});
  Entry& entry = found->second;
  if (!is_new && entry.reference) return entry;
  entry.a.resize(static_cast<std::size_t>(problem_->m * problem_->k));
  entry.b.resize(static_cast<std::size_t>(problem_->k * problem_->n));
  make_operands(kind, seed, entry.a.data(), entry.b.data());
  entry.a_hash = hash_bytes(entry.a.data(), entry.a.size() * 2);
  entry.b_hash = hash_bytes(entry.b.data(), entry.b.size() * 2);
  entry.reference =
      std::make_shared<Reference>(*problem_, reference_rows(*problem_, seed), entry.a.data(), entry.b.data());
  if (static_cast<std::int64_t>(entry.a.size() + entry.b.size()) * 2 > kKeptOperandBytes) {
    entry.a = {};
    entry.b = {};
  }
  return entry;
}

Status CpuBackend::load(const Artifact& artifact, const nlohmann::json& launch) {
  unload();
  try {
    loaded_.launch = launch.get<CpuLaunch>();
  } catch (const nlohmann::json::exception& error) {
    return failure(fmt::format("malformed launch descriptor: {}", error.what()));
  }
  if (loaded_.launch.threads < 1 || loaded_.launch.threads > pool_.threads()) {
    return failure(
        fmt::format("the candidate wants {} threads, the worker has {}", loaded_.launch.threads, pool_.threads()));
  }
  loaded_.library = dlopen(artifact.binary.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (loaded_.library == nullptr) return failure(dlerror());
  loaded_.kernel = reinterpret_cast<WarpsmithCpuKernel>(dlsym(loaded_.library, loaded_.launch.entry.c_str()));
  if (loaded_.kernel == nullptr) return failure(dlerror());
  loaded_.workspace = GuardedBuffer((static_cast<std::size_t>(loaded_.launch.workspace_bytes) + 4095) / 4096 * 4096,
                                    GuardedBuffer::Flush::start, 1);
  loaded_.layout = problem_->layout;
  forget(0);
  return ok_status();
}

void CpuBackend::forget(int subject) {
  armed_.erase({subject, false});
  armed_.erase({subject, true});
  cold_launches_.erase(subject);
}

void CpuBackend::unload() {
  state_hash_.reset();
  fills_since_load_ = 0;
  if (loaded_.library != nullptr) dlclose(loaded_.library);
  loaded_ = {};
}

void CpuBackend::drop_kept() {
  for (Loaded& one : kept_) dlclose(one.library);
  kept_.clear();
}

Result<int> CpuBackend::keep_candidate() {
  kept_.push_back(std::exchange(loaded_, {}));
  unload();
  forget(0);
  return -static_cast<int>(kept_.size());
}

// Operands that are kept lie in the old layout: they are made again.
Status CpuBackend::change_layout(Layout layout) {
  unload();
  current_ = nullptr;
  entries_.clear();
  problem_->layout = layout;
  return ok_status();
}

Status CpuBackend::fill(InputKind kind, std::uint64_t seed) {
  try {
    _mm_setcsr(kDefaultMxcsr);  // whatever a candidate has left
    Entry& entry = entry_for(kind, seed);
    const auto a_count = static_cast<std::size_t>(problem_->m * problem_->k);
    const auto b_count = static_cast<std::size_t>(problem_->k * problem_->n);
    const auto c_count = static_cast<std::size_t>(problem_->m * problem_->n);
    // The first, third ... fill of a candidate guards the ends, the others the starts; the slack, and with it the
    // address, varies.
    ++fills_;
    const auto flush = ++fills_since_load_ % 2 == 1 ? GuardedBuffer::Flush::end : GuardedBuffer::Flush::start;
    const auto slack = [&](std::uint64_t salt) { return 1 + inputs::mix(fills_ * 3 + salt) % 13; };
    a_ = GuardedBuffer(a_count * 2, flush, slack(0));
    b_ = GuardedBuffer(b_count * 2, flush, slack(1));
    c_ = GuardedBuffer(c_count * 2, flush, slack(2));
    copy_operands(entry, kind, seed);
    return ok_status();
  } catch (const std::bad_alloc&) {
    return environment_error(fmt::format("not enough memory for {}", to_string(*problem_)));
  } catch (const EnvironmentError& error) {
    return environment_error(error.what());
  }
}

void CpuBackend::copy_operands(const Entry& entry, InputKind kind, std::uint64_t seed) {
  if (entry.a.empty()) {
    make_operands(kind, seed, a_.elements(), b_.elements());
  } else {
    std::copy(entry.a.begin(), entry.a.end(), a_.elements());
    std::copy(entry.b.begin(), entry.b.end(), b_.elements());
  }
  current_ = &entry;
}

Status CpuBackend::refill(InputKind kind, std::uint64_t seed) {
  try {
    _mm_setcsr(kDefaultMxcsr);
    copy_operands(entry_for(kind, seed), kind, seed);
    return ok_status();
  } catch (const std::bad_alloc&) {
    return environment_error(fmt::format("not enough memory for {}", to_string(*problem_)));
  }
}

Status CpuBackend::run_once(std::uint16_t poison) {
  std::fill_n(c_.elements(), c_.bytes() / 2, poison);
  std::fill_n(loaded_.workspace.elements(), loaded_.workspace.bytes() / 2, poison);
  return run_for_a_gate();
}

Status CpuBackend::run_kept(std::uint16_t poison) {
  std::fill_n(c_.elements(), c_.bytes() / 2, poison);
  return run_for_a_gate();
}

Status CpuBackend::run_stale(std::uint16_t poison, const inputs::Holes& holes) {
  const auto count = static_cast<std::int64_t>(c_.bytes() / 2);
  for (std::int64_t i = 0; i < count; ++i) {
    if (holes.at(i, count)) c_.elements()[i] = poison;
  }
  return run_for_a_gate();
}

Status CpuBackend::run_for_a_gate() {
  run_candidate(loaded_, a_.elements(), b_.elements(), c_.elements());
  if (!state_hash_) state_hash_ = hash_writable_data(loaded_.library);
  return ok_status();
}

Result<CheckReport> CpuBackend::check_state() {
  if (!state_hash_ || *state_hash_ == hash_writable_data(loaded_.library)) return CheckReport{true, {}, 0, 0};
  return CheckReport{false, "the shared object's variables are not what they were after its first run", 0, 1};
}

void CpuBackend::run_candidate(Loaded& candidate, const std::uint16_t* a, const std::uint16_t* b, std::uint16_t* c) {
  Problem as_stored = *problem_;
  as_stored.layout = candidate.layout;
  SpinBarrier barrier(candidate.launch.threads);
  WarpsmithCpuArguments arguments{};
  arguments.a = a;
  arguments.b = b;
  arguments.c = c;
  arguments.m = problem_->m;
  arguments.n = problem_->n;
  arguments.k = problem_->k;
  arguments.lda = as_stored.a_cols();
  arguments.ldb = as_stored.b_cols();
  arguments.ldc = problem_->n;
  arguments.workspace = candidate.workspace.data();
  arguments.parameters = candidate.launch.parameters.data();
  arguments.threads = candidate.launch.threads;
  arguments.barrier = meet;
  arguments.barrier_state = &barrier;
  if (candidate.launch.threads == 1) {
    candidate.kernel(&arguments, 0);
    return;
  }
  pool_.run(candidate.launch.threads, [&](int thread) { candidate.kernel(&arguments, thread); });
}

CheckReport CpuBackend::check(Criterion criterion) { return current_->reference->check(criterion, c_.elements()); }

CheckReport CpuBackend::check_untouched() {
  CheckReport report;
  const std::pair<const char*, const GuardedBuffer*> zones[] = {
      {"A", &a_}, {"B", &b_}, {"C", &c_}, {"the workspace", &loaded_.workspace}};
  for (const auto& [name, buffer] : zones) {
    if (const auto where = buffer->broken_canary()) {
      report.detail = fmt::format("wrote outside {}: {}", name, *where);
      return report;
    }
  }
  if (hash_bytes(a_.data(), a_.bytes()) != current_->a_hash) {
    report.detail = "input A was changed";
  } else if (hash_bytes(b_.data(), b_.bytes()) != current_->b_hash) {
    report.detail = "input B was changed";
  } else {
    report.passed = true;
  }
  return report;
}

std::uint64_t CpuBackend::output_hash() { return hash_bytes(c_.data(), c_.bytes()); }

std::int64_t CpuBackend::count_equal_to(std::uint16_t pattern) {
  return std::count(c_.elements(), c_.elements() + c_.bytes() / 2, pattern);
}

Result<std::vector<std::string>> CpuBackend::open_baselines() {
  auto opened = CpuBaselines::open(*problem_, pool_);
  if (!opened) return opened.error();
  baselines_ = std::move(*opened);
  for (const auto& [name, version] : baseline_versions()) machine_.versions[name] = version;
  std::vector<std::string> names;
  for (const CpuBaseline& one : baselines_->list()) names.push_back(one.name);
  return names;
}

std::string CpuBackend::baseline_detail(int subject) { return baseline(subject).detail; }

void CpuBackend::launch(int subject, int set) {
  if (subject <= 0) {
    Loaded& one = candidate(subject);
    Problem as_stored = *problem_;
    as_stored.layout = one.layout;
    one.written.insert(set);
    run_candidate(one, sets_->a(as_stored.a_is_k_major(), set), sets_->b(as_stored.b_is_k_major(), set),
                  sets_->c(TimingSets::Owner::candidate, set));
    return;
  }
  const CpuBaseline& one = baseline(subject);
  baselines_->run(one, sets_->a(true, set), sets_->b(one.layout == Layout::tn, set),
                  sets_->c(TimingSets::Owner::baseline, set));
}

// Subjects must not disturb one another with threads that still spin.
void CpuBackend::settle(int subject) {
  if (subject == last_subject_) return;
  pool_.park();
  if (last_subject_ > 0 && baseline(last_subject_).threads > 1) wait_until_quiet();
  last_subject_ = subject;
  if (subject > 0 && baseline(subject).threads > 1) {
    launch(subject, 0);  // the library starts the threads that it will use
    pin_library_threads(pool_.ids().data(), static_cast<int>(pool_.ids().size()));
  }
}

// One launch outside the clock wakes threads and, warm, fetches the operands that other batches have evicted.
double CpuBackend::batch_us(int subject, bool cold, int launches) {
  settle(subject);
  const PinnedCaller pinned;
  if (subject <= 0) {
    GuardedBuffer& workspace = candidate(subject).workspace;
    std::fill_n(workspace.elements(), workspace.bytes() / 2, kPoisonPatterns[0]);
  }
  std::int64_t& position = cold_launches_[subject];
  const auto next_set = [&] { return cold ? static_cast<int>(position++ % sets_->count()) : 0; };
  launch(subject, next_set());
  const double start = now_us();
  for (int i = 0; i < launches; ++i) launch(subject, next_set());
  return (now_us() - start) / launches;
}

Result<double> CpuBackend::arm(int subject, bool cold, bool pdl) {
  if (pdl) return no_pdl();
  if (armed_.find({subject, !cold}) == armed_.end()) {
    sets_->poison(subject <= 0 ? TimingSets::Owner::candidate : TimingSets::Owner::baseline, kPoisonPatterns[0]);
  }
  int launches = 1;
  double time_us = batch_us(subject, cold, launches);
  while (time_us * launches < kCalibrationUs && launches < kMostLaunches) {
    launches *= 4;
    time_us = batch_us(subject, cold, launches);
  }
  Armed& armed = armed_[{subject, cold}];
  armed.launches =
      static_cast<int>(std::clamp(std::ceil(kBatchUs / std::max(time_us, 1e-3)), 1.0, 1.0 * kMostLaunches));
  return time_us;
}

Result<double> CpuBackend::time_batch(int subject, bool cold, bool pdl) {
  if (pdl) return no_pdl();
  return batch_us(subject, cold, armed_.at({subject, cold}).launches);
}

// Calls of all subjects take the sets in one common turn: none finds another's operands in the caches.
Status CpuBackend::ready_call(int subject, bool cold) {
  settle(subject);
  const PinnedCaller pinned;
  call_set_ = cold ? static_cast<int>(calls_++ % sets_->count()) : 0;
  if (!cold) launch(subject, call_set_);
  const auto owner = subject <= 0 ? TimingSets::Owner::candidate : TimingSets::Owner::baseline;
  std::fill_n(sets_->c(owner, call_set_), problem_->m * problem_->n, kPoisonPatterns[0]);
  if (subject <= 0) {
    GuardedBuffer& workspace = candidate(subject).workspace;
    std::fill_n(workspace.elements(), workspace.bytes() / 2, kPoisonPatterns[0]);
  }
  return ok_status();
}

Result<double> CpuBackend::call(int subject, bool) {
  const PinnedCaller pinned;
  const double start = now_us();
  launch(subject, call_set_);
  return now_us() - start;
}

int CpuBackend::launches_per_batch(int subject, bool cold, bool) { return armed_.at({subject, cold}).launches; }

// Of the first core, where the kernel says; a virtual machine usually does not.
double CpuBackend::clock_mhz() {
  std::ifstream file("/sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq");
  double khz = 0;
  return file >> khz ? khz / 1000 : 0;
}

// The candidate's outputs are what its timed launches left. Baselines, and candidates that were kept, share their
// output sets, so each is run once more.
Result<CheckReport> CpuBackend::check_timed_outputs(int subject) {
  const auto owner = subject <= 0 ? TimingSets::Owner::candidate : TimingSets::Owner::baseline;
  std::set<int> used = {0};
  if (subject <= 0) used = candidate(subject).written;
  for (const int set : used) {
    if (subject == 0) continue;
    std::fill_n(sets_->c(owner, set), problem_->m * problem_->n, kPoisonPatterns[0]);
    launch(subject, set);
  }
  const auto reference = entry_for(InputKind::normal, timing_seed_).reference;
  CheckReport total;
  for (const int set : used) {
    const CheckReport report = reference->check(Criterion::bound, sets_->c(owner, set), sets_->row_shift(set));
    total.worst_error = std::max(total.worst_error, report.worst_error);
    total.bad += report.bad;
    total.precision.add(report.precision);
    if (!report.passed && total.detail.empty()) total.detail = fmt::format("set {}: {}", set, report.detail);
  }
  total.passed = total.bad == 0;
  if (total.passed) total.detail = reference->declaration();
  return total;
}

}  // namespace warpsmith
