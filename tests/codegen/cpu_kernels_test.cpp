// The cpu family: rules, starting points, and what it generates: compiled, run on every layout and ragged size with the
// operands against unreadable pages, and compared with a double-precision product.
#include <gtest/gtest.h>

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "codegen/generate.h"
#include "compile/compile.h"
#include "recipe/cpu_plan.h"

namespace warpsmith {
namespace {

namespace fs = std::filesystem;

// The calling convention of src/cpu/kernel_abi.h, written out again: a change of the header must be noticed here.
struct Arguments {
  const std::uint16_t* a;
  const std::uint16_t* b;
  std::uint16_t* c;
  std::int64_t m, n, k, lda, ldb, ldc;
  void* workspace;
  const std::int64_t* parameters;
  int threads;
  void (*barrier)(void*);
  void* barrier_state;
};
using Kernel = void (*)(const Arguments*, int);

Problem problem(const std::string& text) { return parse_problem(text).value(); }
Recipe recipe(const std::string& text) { return parse_recipe(text).value(); }

// What this machine can run, with two threads whatever its cores.
Machine this_machine() {
  Machine machine;
  machine.kind = "cpu";
  machine.units = 2;
  machine.avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  machine.avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                   __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return machine;
}

Machine any_machine(int units, bool avx512) {
  Machine machine = this_machine();
  machine.units = units;
  machine.avx2 = true;
  machine.avx512 = avx512;
  machine.l1_bytes = 32 << 10;
  machine.l2_bytes = 1 << 20;
  machine.l3_bytes = 32 << 20;
  return machine;
}

double decode(ElementType element, std::uint16_t bits) {
  const bool half = element == ElementType::f16;
  const int mantissa_bits = half ? 10 : 7, bias = half ? 15 : 127, exponent_mask = half ? 31 : 255;
  const int exponent = (bits >> mantissa_bits) & exponent_mask, mantissa = bits & ((1 << mantissa_bits) - 1);
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == exponent_mask) {
    return mantissa != 0 ? std::numeric_limits<double>::quiet_NaN() : sign * std::numeric_limits<double>::infinity();
  }
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
  return sign * std::ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
}

// The bit pattern of a value that the type holds exactly.
std::uint16_t encode(ElementType element, double value) {
  static std::map<double, std::uint16_t> patterns[2];
  auto& table = patterns[static_cast<int>(element)];
  if (table.empty()) {
    for (int bits = 0; bits < 0x10000; ++bits) {
      const double decoded = decode(element, static_cast<std::uint16_t>(bits));
      if (!std::isnan(decoded)) table.emplace(decoded, static_cast<std::uint16_t>(bits));
    }
  }
  return table.at(value);
}

double half_ulp(ElementType element, double value) {
  const int mantissa_bits = element == ElementType::f16 ? 10 : 7, least = element == ElementType::f16 ? -14 : -126;
  const int exponent = value == 0 ? least : std::max(std::ilogb(value), least);
  return std::ldexp(0.5, exponent - mantissa_bits);
}

// A block of memory between two unreadable pages, flush with the one after it or the one before it.
class GuardedBlock {
 public:
  GuardedBlock(std::size_t bytes, bool at_end) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const std::size_t inside = (bytes + page - 1) / page * page;
    size_ = inside + 2 * page;
    base_ = static_cast<char*>(mmap(nullptr, size_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    EXPECT_EQ(mprotect(base_ + page, inside, PROT_READ | PROT_WRITE), 0);
    data_ = base_ + page + (at_end ? inside - bytes : 0);
    std::memset(base_ + page, 0xff, inside);  // NaN in every format
  }
  ~GuardedBlock() { munmap(base_, size_); }
  GuardedBlock(const GuardedBlock&) = delete;
  GuardedBlock& operator=(const GuardedBlock&) = delete;
  std::uint16_t* elements() { return reinterpret_cast<std::uint16_t*>(data_); }
  void* data() { return data_; }

 private:
  char* base_ = nullptr;
  char* data_ = nullptr;
  std::size_t size_ = 0;
};

struct Meeting {
  explicit Meeting(int threads) : threads_(threads) {}
  static void meet(void* state) {
    auto& meeting = *static_cast<Meeting*>(state);
    const int round = meeting.round_.load();
    if (meeting.waiting_.fetch_add(1) + 1 == meeting.threads_) {
      meeting.waiting_ = 0;
      meeting.round_ = round + 1;
    } else {
      while (meeting.round_.load() == round) std::this_thread::yield();
    }
  }
  int threads_;
  std::atomic<int> waiting_{0}, round_{0};
};

using Matrix = std::vector<std::uint16_t>;  // as stored

class CpuKernels : public ::testing::Test {
 protected:
  CpuKernels() {
    cache_ = fs::temp_directory_path() / ("warpsmith-cpu-kernels-test-" + std::to_string(getpid()));
    CompilerOptions options;
    options.cache = cache_;
    compiler_ = std::make_unique<Compiler>(options);
  }
  ~CpuKernels() override { fs::remove_all(cache_); }

  Kernel load(const Candidate& candidate) {
    const Result<Artifact> artifact = compiler_->compile(candidate);
    if (!artifact) {
      ADD_FAILURE() << artifact.error().message;
      return nullptr;
    }
    void* library = dlopen(artifact->binary.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      ADD_FAILURE() << dlerror();
      return nullptr;
    }
    return reinterpret_cast<Kernel>(dlsym(library, std::get<CpuLaunch>(candidate.launch).entry.c_str()));
  }

  static Matrix call(Kernel kernel, const CpuLaunch& launch, const Problem& p, const Matrix& a, const Matrix& b,
                     bool at_end) {
    const auto elements_c = static_cast<std::size_t>(p.m * p.n);
    GuardedBlock block_a(a.size() * 2, at_end), block_b(b.size() * 2, at_end), block_c(elements_c * 2, at_end);
    GuardedBlock workspace(static_cast<std::size_t>(launch.workspace_bytes), true);
    std::copy(a.begin(), a.end(), block_a.elements());
    std::copy(b.begin(), b.end(), block_b.elements());
    Meeting meeting(launch.threads);
    const Arguments arguments = {block_a.elements(),
                                 block_b.elements(),
                                 block_c.elements(),
                                 p.m,
                                 p.n,
                                 p.k,
                                 p.a_cols(),
                                 p.b_cols(),
                                 p.n,
                                 workspace.data(),
                                 launch.parameters.data(),
                                 launch.threads,
                                 Meeting::meet,
                                 &meeting};
    std::vector<std::thread> others;
    for (int thread = 1; thread < launch.threads; ++thread) others.emplace_back(kernel, &arguments, thread);
    kernel(&arguments, 0);
    for (std::thread& other : others) other.join();
    EXPECT_TRUE(std::equal(a.begin(), a.end(), block_a.elements())) << "A was changed";
    EXPECT_TRUE(std::equal(b.begin(), b.end(), block_b.elements())) << "B was changed";
    return {block_c.elements(), block_c.elements() + elements_c};
  }

  fs::path cache_;
  std::unique_ptr<Compiler> compiler_;
};

struct Reference {
  double value = 0, magnitude = 0;  // sum of products, and of their absolute values
};

Reference reference(const Problem& p, const Matrix& a, const Matrix& b, std::int64_t row, std::int64_t column) {
  Reference sum;
  for (std::int64_t k = 0; k < p.k; ++k) {
    const auto at_a = static_cast<std::size_t>(p.a_is_k_major() ? row * p.k + k : k * p.m + row);
    const auto at_b = static_cast<std::size_t>(p.b_is_k_major() ? column * p.k + k : k * p.n + column);
    const double product = decode(p.element, a[at_a]) * decode(p.element, b[at_b]);
    sum.value += product;
    sum.magnitude += std::fabs(product);
  }
  return sum;
}

// The first element of C outside the bound, in words, or nothing. Infinities and NaN must be where IEEE puts them.
std::string first_error(const Problem& p, const Matrix& a, const Matrix& b, const Matrix& c, bool exact) {
  const double unit = std::ldexp(1.0, -23) * static_cast<double>(p.k);
  const double gamma = unit / (1 - unit);
  for (std::int64_t i = 0; i < p.m; ++i) {
    for (std::int64_t j = 0; j < p.n; ++j) {
      const Reference expected = reference(p, a, b, i, j);
      const double got = decode(p.element, c[static_cast<std::size_t>(i * p.n + j)]);
      bool right = false;
      if (std::isnan(expected.value))
        right = std::isnan(got);
      else if (std::isinf(expected.value))
        right = got == expected.value;
      else if (exact)
        right = got == expected.value;
      else
        right = std::fabs(got - expected.value) <= half_ulp(p.element, expected.value) + gamma * expected.magnitude;
      if (!right) {
        return "C[" + std::to_string(i) + "," + std::to_string(j) + "] is " + std::to_string(got) + ", not " +
               std::to_string(expected.value);
      }
    }
  }
  return "";
}

class Inputs {
 public:
  Inputs(const Problem& p, std::uint32_t seed) : problem_(p), random_(seed) {}

  // Both signs, magnitudes from 2^-4 to 2.
  Matrix normal(std::int64_t elements) {
    const bool half = problem_.element == ElementType::f16;
    const int mantissa_bits = half ? 10 : 7, bias = half ? 15 : 127;
    return fill(elements, [&] {
      const auto exponent = static_cast<unsigned>(bias - 4) + random_() % 5;
      return static_cast<std::uint16_t>((random_() % 2) << 15 | exponent << mantissa_bits |
                                        random_() % (1u << mantissa_bits));
    });
  }
  // Mostly zero, else -1, 1 or 2, times a power of two: every sum over the sizes used here is exact.
  Matrix integers(std::int64_t elements, double scale) {
    const double values[] = {0, 0, 0, 0, 0, -1, 1, 2};
    return fill(elements, [&] { return encode(problem_.element, values[random_() % 8] * scale); });
  }
  // Few of them, so that most of C stays finite.
  void sprinkle_specials(Matrix& matrix) {
    const double infinity = std::numeric_limits<double>::infinity();
    for (const std::uint16_t bits : {encode(problem_.element, infinity), encode(problem_.element, -infinity),
                                     static_cast<std::uint16_t>(0x7fff)}) {
      matrix[random_() % matrix.size()] = bits;
    }
  }

 private:
  template <class Draw>
  Matrix fill(std::int64_t elements, Draw draw) {
    Matrix matrix(static_cast<std::size_t>(elements));
    for (std::uint16_t& element : matrix) element = draw();
    return matrix;
  }
  Problem problem_;
  std::mt19937 random_;
};

class CpuKernelResults : public CpuKernels {
 protected:
  void compile_all(const std::vector<std::pair<Recipe, Problem>>& cases);

  // Runs one recipe on one problem with several inputs.
  void check(const Recipe& r, const Problem& p) {
    const Result<Candidate> candidate = generate(r, p, this_machine());
    ASSERT_TRUE(candidate.ok()) << candidate.error().message;
    const Kernel kernel = load(*candidate);
    ASSERT_NE(kernel, nullptr);
    const auto& launch = std::get<CpuLaunch>(candidate->launch);
    const std::int64_t size_a = p.m * p.k, size_b = p.k * p.n;
    Inputs inputs(p, 1);

    const Matrix a = inputs.normal(size_a), b = inputs.normal(size_b);
    const Matrix c = call(kernel, launch, p, a, b, true);
    EXPECT_EQ(first_error(p, a, b, c, false), "");
    EXPECT_EQ(call(kernel, launch, p, a, b, false), c) << "other addresses or another run gave other bits";

    const double tiny = p.element == ElementType::f16 ? std::ldexp(1.0, -24) : std::ldexp(1.0, -133);
    for (const double scale : {1.0, tiny}) {  // the second: subnormal operands and results
      const Matrix left = inputs.integers(size_a, scale), right = inputs.integers(size_b, 1);
      EXPECT_EQ(first_error(p, left, right, call(kernel, launch, p, left, right, true), true), "") << scale;
    }

    Matrix special_a = a, special_b = b;
    inputs.sprinkle_specials(special_a);
    inputs.sprinkle_specials(special_b);
    EXPECT_EQ(first_error(p, special_a, special_b, call(kernel, launch, p, special_a, special_b, true), false), "");
    ++checked_;
  }
  int checked_ = 0;
};

// Every path: both forms, all sources of A and B, blocks of k kept in float sums, both nests and orders, all splits.
const std::vector<std::string> kPaths = {
    "cpu form=outer tile=4x2 b=packed block=2x1x16 order=columns",
    "cpu form=outer tile=6x2 b=fused block=2x2x32 prefetch=8 preload=all prefetch_a=rows",
    "cpu form=outer tile=4x3 b=direct nest=depth block=1xallx16 threads=2 split=n preload=b",
    "cpu form=inner tile=3x3 a=direct b=direct block=allxallx48 prefetch=64 prefetch_a=depth threads=2 split=m",
    "cpu form=inner tile=2x4 a=packed b=packed block=2x2x32 nest=depth",
    "cpu form=outer tile=3x3 b=packed block=2xallx16 nest=depth threads=2 split=k",
    "cpu simd=avx512 form=outer tile=14x2 b=packed",
    "cpu simd=avx512 form=outer tile=8x3 b=fused block=1xallx32 prefetch_a=depth threads=2 split=mn",
    "cpu simd=avx512 form=outer tile=6x4 b=direct block=allx1x16 unroll=1 order=columns",
    "cpu simd=avx512 form=inner tile=5x5 a=direct b=packed block=1xallx48 nest=depth order=columns prefetch_a=rows",
    "cpu simd=avx512 form=inner tile=4x6 a=packed b=direct threads=2 split=k",
    "cpu simd=avx512vl form=outer tile=9x3 b=fused preload=pages threads=2 split=k",
    "cpu simd=avx512vl form=inner tile=5x5 a=packed b=packed block=allxallx64",
};

// No larger tile than `size` needs.
void limit(Recipe& r, const std::string& field, std::int64_t size) {
  for (const KnobField* candidate : r.family().fields()) {
    if (candidate->name != field) continue;
    for (const int value : candidate->values) {
      if (value < size) continue;
      if (value < r.get(field)) r.set(field, value);
      return;
    }
  }
}

// The path itself where the problem allows it, else the nearest recipe: packed operands where they are stored across
// the vectors, smaller tiles, one thread where two have nothing to share.
Recipe adapted(const std::string& path, const Problem& p) {
  Recipe r = recipe(path);
  const bool outer = r.get("form") == kCpuOuter;
  if (outer == p.b_is_k_major()) r.set("b", kCpuPacked).set("prefetch", 0);
  if (!outer && !p.a_is_k_major()) r.set("a", kCpuPacked);
  const int lanes = r.get("simd") == kCpuAvx512 ? 16 : 8;
  limit(r, "tile_rows", p.m);
  limit(r, "tile_columns", outer ? (p.n + lanes - 1) / lanes : p.n);
  const auto violation = find_violation(r, &p, this_machine());
  if (violation && violation->rule == "shares") r.set("threads", 1).set("split", kCpuSplitM);
  return r;
}

// Compiles ahead, on two threads, what check() then finds in the cache.
void CpuKernelResults::compile_all(const std::vector<std::pair<Recipe, Problem>>& cases) {
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i = next++; i < cases.size(); i = next++) {
      const Result<Candidate> candidate = generate(cases[i].first, cases[i].second, this_machine());
      if (candidate) (void)compiler_->compile(*candidate);  // check() reports the error
    }
  };
  std::thread other(work);
  work();
  other.join();
}

TEST_F(CpuKernelResults, AgreeWithDoublePrecision) {
  const char* const shapes[] = {"1x1x1", "7x64x33", "64x7x5", "13x37x97", "29x131x50", "66x17x130"};
  const char* const layouts[] = {"nn", "tn", "nt", "tt"};
  const Machine machine = this_machine();
  ASSERT_TRUE(machine.avx2);
  std::vector<std::pair<Recipe, Problem>> cases;
  for (std::size_t path = 0; path < kPaths.size(); ++path) {
    if (recipe(kPaths[path]).get("simd") != kCpuAvx2 && !machine.avx512) continue;
    for (std::size_t i = 0; i < 4; ++i) {  // every path meets every layout; shapes and element types take turns
      const char* const element = cases.size() % 3 == 2 ? "bf16" : "f16";
      const Problem p =
          problem(std::string(shapes[(path + i) % 6]) + " " + layouts[(path / 6 + i) % 4] + " " + element);
      cases.emplace_back(adapted(kPaths[path], p), p);
    }
  }
  compile_all(cases);
  for (const auto& [r, p] : cases) {
    SCOPED_TRACE(to_string(p) + ": " + to_string(r));
    check(r, p);
  }
  EXPECT_EQ(checked_, static_cast<int>(cases.size()));
}

TEST_F(CpuKernelResults, BlocksOfKAddUpInFloat) {
  // Large partial sums that cancel: 16-bit sums between blocks of k would be off by whole units.
  const Problem p = problem("5x24x1024");
  Matrix a(static_cast<std::size_t>(p.m * p.k), encode(p.element, 1)), b(static_cast<std::size_t>(p.k * p.n));
  for (std::int64_t k = 0; k < p.k; ++k) {
    for (std::int64_t j = 0; j < p.n; ++j) {
      const double sign = k < p.k / 2 ? 1 : -1, residue = k == 0 ? static_cast<double>(j % 8) : 0;
      b[static_cast<std::size_t>(k * p.n + j)] =
          encode(p.element, sign * static_cast<double>(60 + k % 512 % 11) + residue);
    }
  }
  for (const char* text : {"cpu tile=4x2 block=allxallx16", "cpu tile=4x2 b=direct block=allxallx32 nest=depth",
                           "cpu form=inner tile=2x3 a=direct block=allxallx64", "cpu tile=4x2 threads=2 split=k"}) {
    SCOPED_TRACE(text);
    const Result<Candidate> candidate = generate(recipe(text), p, this_machine());
    ASSERT_TRUE(candidate.ok()) << candidate.error().message;
    const Kernel kernel = load(*candidate);
    ASSERT_NE(kernel, nullptr);
    const Matrix c = call(kernel, std::get<CpuLaunch>(candidate->launch), p, a, b, true);
    EXPECT_EQ(first_error(p, a, b, c, true), "");
  }
}

TEST(CpuFamily, RecipesThatDifferInRunTimeKnobsShareTheirSource) {
  const Problem p = problem("300x700x900");
  const Machine machine = any_machine(4, true);
  const auto source = [&](const std::string& text) { return generate(recipe(text), p, machine).value().source; };
  const std::string base = source("cpu simd=avx512 tile=14x2 b=packed block=4x8x512");
  EXPECT_EQ(base, source("cpu simd=avx512 tile=14x2 b=packed block=16xallx384 order=columns"));
  EXPECT_EQ(base, source("cpu simd=avx512 tile=14x2 b=packed block=allxallx512 threads=2 split=m"));
  EXPECT_EQ(base, source("cpu simd=avx512 tile=14x2 b=packed threads=2 split=k nest=depth block=allxallx512"));
  EXPECT_NE(base, source("cpu simd=avx512 tile=14x2 b=packed unroll=8"));
}

std::string broken_rule(const std::string& recipe_text, const std::string& problem_text, const Machine& machine) {
  const Problem p = problem(problem_text);
  const auto violation = find_violation(recipe(recipe_text), &p, machine);
  EXPECT_TRUE(!violation || !violation->reason.empty());
  return violation ? violation->rule : "";
}

TEST(CpuFamily, RulesNameWhatIsWrong) {
  const Machine machine = any_machine(2, true);
  EXPECT_EQ(broken_rule("cpu simd=avx512 tile=14x2", "100x100x100", machine), "");
  EXPECT_EQ(broken_rule("cpu simd=avx512", "100x100x100", any_machine(2, false)), "isa");
  EXPECT_EQ(broken_rule("cpu tile=14x2", "100x100x100", machine), "register_tile");
  EXPECT_EQ(broken_rule("cpu simd=avx512 tile=8x4", "100x100x100", machine), "register_tile");
  EXPECT_EQ(broken_rule("cpu a=direct", "100x100x100", machine), "sources");
  EXPECT_EQ(broken_rule("cpu b=fused order=columns", "100x100x100", machine), "sources");
  EXPECT_EQ(broken_rule("cpu b=packed prefetch=8", "100x100x100", machine), "sources");
  EXPECT_EQ(broken_rule("cpu b=direct", "100x100x100 tn", machine), "layout");
  EXPECT_EQ(broken_rule("cpu form=inner a=direct tile=2x2", "100x100x100 nt", machine), "layout");
  EXPECT_EQ(broken_rule("cpu threads=4", "100x100x100", machine), "threads");
  EXPECT_EQ(broken_rule("cpu split=n", "100x100x100", machine), "threads");
  EXPECT_EQ(broken_rule("cpu threads=2 split=k block=allx4xall", "100x100x100", machine), "threads");
  EXPECT_EQ(broken_rule("cpu tile=1x2 threads=2 split=m", "1x100x100", machine), "shares");
  EXPECT_EQ(broken_rule("cpu tile=4x2", "1x100x100", machine), "tile_fits");
  EXPECT_EQ(broken_rule("cpu tile=4x2", "100x100x100 nn f16 f16", machine), "accumulator");
  EXPECT_EQ(broken_rule("cpu tile=4x2", "100x131072x8192", machine), "workspace");
}

TEST(CpuFamily, StartingPointsAreLegalAndDistinct) {
  for (const char* shape : {"1x1x1", "64x64x64", "7x5x3", "1x4096x4096", "4x4096x4096", "16x4096x4096", "4096x16x4096",
                            "4096x1x4096", "640x40x640", "48x48x8192", "1024x1024x1024", "8192x8192x8192", "2x3x100000",
                            "1048576x1x64", "1x1048576x64", "20000x20000x20000"}) {
    for (const char* layout : {"nn", "tn", "nt", "tt"}) {
      for (const int units : {1, 2, 16}) {
        for (const bool avx512 : {false, true}) {
          const Problem p = problem(std::string(shape) + " " + layout);
          const Machine machine = any_machine(units, avx512);
          const std::vector<Recipe> points = cpu_family().starting_points(p, machine);
          EXPECT_GE(points.size(), 1u) << to_string(p);
          EXPECT_LE(points.size(), 16u) << to_string(p);
          std::set<std::string> texts;
          for (const Recipe& point : points) {
            EXPECT_TRUE(is_legal(point, p, machine)) << to_string(p) << ": " << to_string(point);
            EXPECT_TRUE(texts.insert(to_string(point)).second) << to_string(p) << ": " << to_string(point);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace warpsmith
