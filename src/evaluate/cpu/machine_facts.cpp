// cpuid, sysconf and two small measurements.
#include "evaluate/cpu/machine_facts.h"

#include <cpuid.h>
#include <immintrin.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <vector>

#include "evaluate/cpu/affinity.h"

namespace warpsmith {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kChains = 12;        // independent accumulators: FMA latency (4) x units (2), with room
constexpr int kFmaRounds = 40000;  // of kChains FMAs in one timed loop: about a tenth of a millisecond
constexpr int kPeakRepeats = 60;
constexpr int kCopyRepeats = 3;
constexpr std::int64_t kMostCopyBytes = 256LL << 20;
constexpr std::size_t kPieceBytes = 1 << 20;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// Both return a value that depends on every FMA, so that none is dropped.
__attribute__((target("avx2,fma"))) float fma_loop_avx2(int rounds) {
  __m256 sums[kChains];
  for (auto& sum : sums) sum = _mm256_set1_ps(1.0f);
  const __m256 x = _mm256_set1_ps(0.999f), y = _mm256_set1_ps(0.001f);
  for (int i = 0; i < rounds; ++i) {
#pragma GCC unroll 12
    for (int c = 0; c < kChains; ++c) sums[c] = _mm256_fmadd_ps(sums[c], x, y);
  }
  for (int c = 1; c < kChains; ++c) sums[0] = _mm256_add_ps(sums[0], sums[c]);
  return _mm256_cvtss_f32(sums[0]);
}

__attribute__((target("avx512f"))) float fma_loop_avx512(int rounds) {
  __m512 sums[kChains];
  for (auto& sum : sums) sum = _mm512_set1_ps(1.0f);
  const __m512 x = _mm512_set1_ps(0.999f), y = _mm512_set1_ps(0.001f);
  for (int i = 0; i < rounds; ++i) {
#pragma GCC unroll 12
    for (int c = 0; c < kChains; ++c) sums[c] = _mm512_fmadd_ps(sums[c], x, y);
  }
  for (int c = 1; c < kChains; ++c) sums[0] = _mm512_add_ps(sums[0], sums[c]);
  return _mm512_cvtss_f32(sums[0]);
}

// Best of several timed loops, summed over the threads: each thread's own best, since they all run at the same time.
double measure_peak_gflops(ThreadPool& pool, float (*loop)(int), int lanes) {
  std::vector<double> best(static_cast<std::size_t>(pool.threads()), 0.0);
  std::vector<float> sink(best.size());
  pool.run(pool.threads(), [&](int thread) {
    const auto at = static_cast<std::size_t>(thread);
    for (int repeat = 0; repeat < kPeakRepeats; ++repeat) {
      const auto start = Clock::now();
      sink[at] += loop(kFmaRounds);
      best[at] = std::max(best[at], 2.0 * lanes * kChains * kFmaRounds / seconds_since(start) * 1e-9);
    }
  });
  double total = 0;
  for (const double one : best) total += one;
  return total;
}

std::uint64_t sum_words(const std::uint64_t* words, std::size_t count) {
  std::array<std::uint64_t, 8> sums{};
  for (std::size_t i = 0; i + 8 <= count; i += 8) {
    for (std::size_t lane = 0; lane < 8; ++lane) sums[lane] += words[i + lane];
  }
  std::uint64_t total = 0;
  for (const std::uint64_t sum : sums) total += sum;
  return total;
}

// The better of a copy (each byte counts once read and once written) and a pure read, all threads together. Timed in
// pieces, each thread's best piece counting, so that other load on the machine does not lower the figure.
double measure_gb_per_s(ThreadPool& pool, std::int64_t l3_bytes) {
  const std::int64_t bytes = std::min(kMostCopyBytes, std::max<std::int64_t>(32 << 20, 2 * l3_bytes)) / 2;
  const auto pieces = static_cast<std::size_t>(bytes / kPieceBytes);
  constexpr std::size_t kPieceWords = kPieceBytes / 8;
  std::vector<std::uint64_t> source(pieces * kPieceWords, 1), destination(pieces * kPieceWords, 2);
  const auto threads = static_cast<std::size_t>(pool.threads());
  std::vector<std::uint64_t> sink(threads);
  std::vector<double> copy(threads), read(threads);
  pool.run(pool.threads(), [&](int number) {
    const auto thread = static_cast<std::size_t>(number);
    for (int repeat = 0; repeat < kCopyRepeats; ++repeat) {
      for (std::size_t piece = thread; piece < pieces; piece += threads) {
        const auto start = Clock::now();
        std::memcpy(destination.data() + piece * kPieceWords, source.data() + piece * kPieceWords, kPieceBytes);
        copy[thread] = std::max(copy[thread], 2.0 * kPieceBytes / seconds_since(start) * 1e-9);
      }
      for (std::size_t piece = thread; piece < pieces; piece += threads) {
        const auto start = Clock::now();
        sink[thread] += sum_words(destination.data() + piece * kPieceWords, kPieceWords);
        read[thread] = std::max(read[thread], 1.0 * kPieceBytes / seconds_since(start) * 1e-9);
      }
    }
  });
  double copied = 0, pure = 0;
  for (std::size_t thread = 0; thread < threads; ++thread) {
    copied += copy[thread];
    pure += read[thread];
  }
  return std::max(copied, pure);
}

bool has_avx512_fp16() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 && (edx & (1u << 23)) != 0 &&
         __builtin_cpu_supports("avx512f") != 0;
}

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// The data cache of a level as the kernel describes it ("32768K"); where it does not, as the C library does (whose
// figure for a shared level is wrong on some virtual machines).
std::int64_t cache_bytes(int level, int sysconf_name) {
  for (int index = 0; index < 8; ++index) {
    const std::string folder = "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + "/";
    if (first_line(folder + "level") != std::to_string(level) || first_line(folder + "type") == "Instruction") continue;
    const std::string size = first_line(folder + "size");
    const long long number = std::strtoll(size.c_str(), nullptr, 10);
    if (number <= 0) break;
    return number * (size.back() == 'K' ? 1 << 10 : size.back() == 'M' ? 1 << 20 : 1);
  }
  return std::max(0L, sysconf(sysconf_name));
}

}  // namespace

Status require_cpu_features() {
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c")) {
    return ok_status();
  }
  return environment_error("the cpu target needs a CPU with AVX2, FMA and F16C");
}

std::string cpu_model_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("model name", 0) != 0) continue;
    const std::size_t colon = line.find(':');
    if (colon != std::string::npos && colon + 2 <= line.size()) return line.substr(colon + 2);
  }
  return "unknown CPU";
}

Machine measure_machine(ThreadPool& pool) {
  const PinnedCaller pinned;
  Machine machine;
  machine.name = cpu_model_name();
  machine.kind = "cpu";
  machine.units = pool.threads();
  machine.l1_bytes = cache_bytes(1, _SC_LEVEL1_DCACHE_SIZE);
  machine.l2_bytes = cache_bytes(2, _SC_LEVEL2_CACHE_SIZE);
  machine.l3_bytes = cache_bytes(3, _SC_LEVEL3_CACHE_SIZE);
  machine.avx2 = true;
  machine.avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                   __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  machine.avx512_fp16 = machine.avx512 && has_avx512_fp16();
  machine.peak_gflops = measure_peak_gflops(pool, fma_loop_avx2, 8);
  if (machine.avx512) {
    machine.peak_gflops = std::max(machine.peak_gflops, measure_peak_gflops(pool, fma_loop_avx512, 16));
  }
  machine.peak_gb_per_s = measure_gb_per_s(pool, machine.l3_bytes);
  return machine;
}

}  // namespace warpsmith
