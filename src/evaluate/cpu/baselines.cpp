// Converts, multiplies, converts back; or lets oneDNN multiply what it is given.
#include "evaluate/cpu/baselines.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "evaluate/cpu/convert.h"
#include "evaluate/cpu/openblas_coretype.h"

namespace warpsmith {

namespace {

constexpr int kConversionTrials = 5;

// Opens both libraries under their best settings; once per process.
struct Libraries {
  Result<SgemmLibrary*> openblas = environment_error("not opened"), onednn = environment_error("not opened");

  Libraries() {
    clear_library_environment();
    const auto core_type = fastest_openblas_coretype();
    if (core_type) {
      setenv("OPENBLAS_CORETYPE", core_type->c_str(), 1);
    } else {
      unsetenv("OPENBLAS_CORETYPE");
    }
    openblas = open_openblas();
    onednn = open_onednn();
  }
};

const Libraries& libraries() {
  static const Libraries instance;
  return instance;
}

Result<std::unique_ptr<OneDnnMatmul>> create_matmul(std::int64_t m, std::int64_t n, std::int64_t k, Layout layout,
                                                    ElementType element, int threads) {
  return OneDnnMatmul::create(
      {m, n, k, layout == Layout::tn, element == ElementType::f16 ? OneDnnType::f16 : OneDnnType::bf16, threads});
}

// Asked for one small problem.
std::string matmul_version(ElementType element) {
  constexpr std::int64_t kSize = 64;
  const auto matmul = create_matmul(kSize, kSize, kSize, Layout::nn, element, 1);
  return matmul ? (*matmul)->version() : "unavailable: " + matmul.error().message;
}

}  // namespace

Result<std::unique_ptr<CpuBaselines>> CpuBaselines::open(const Problem& problem, ThreadPool& pool) {
  const Libraries& found = libraries();
  if (!found.openblas && !found.onednn) {
    return environment_error(
        fmt::format("no CPU baseline: {}; {}", found.openblas.error().message, found.onednn.error().message));
  }
  std::unique_ptr<CpuBaselines> result(new CpuBaselines(problem, pool));
  if (found.openblas) result->add_sgemm("openblas-sgemm", *found.openblas);
  if (found.onednn) result->add_sgemm("onednn-sgemm", *found.onednn);
  result->add_matmul();
  return result;
}

CpuBaselines::CpuBaselines(const Problem& problem, ThreadPool& pool)
    : problem_(problem),
      pool_(pool),
      a_(static_cast<std::size_t>(problem.m * problem.k), 0.5f),
      b_(static_cast<std::size_t>(problem.k * problem.n), 0.5f),
      c_(static_cast<std::size_t>(problem.m * problem.n)) {}

std::vector<int> CpuBaselines::thread_counts() const {
  return pool_.threads() > 1 ? std::vector{1, pool_.threads()} : std::vector{1};
}

void CpuBaselines::add_sgemm(const std::string& name, SgemmLibrary* library) {
  for (const int threads : thread_counts()) {
    for (const Layout layout : {Layout::nn, Layout::tn}) {
      CpuBaseline baseline{
          fmt::format("{}-{}-{}t", name, to_string(layout), threads), {}, layout, threads, false, library, nullptr};
      if (threads > 1) choose_conversion(baseline);
      baseline.detail =
          fmt::format("{}, {} thread{}, conversion {}", library->version(), threads, threads > 1 ? "s" : "",
                      baseline.parallel_conversion ? "on all threads" : "on one thread");
      list_.push_back(std::move(baseline));
    }
  }
}

// What oneDNN does not offer is left out; baseline_versions() has its reason.
void CpuBaselines::add_matmul() {
  for (const int threads : thread_counts()) {
    for (const Layout layout : {Layout::nn, Layout::tn}) {
      auto matmul = create_matmul(problem_.m, problem_.n, problem_.k, layout, problem_.element, threads);
      if (!matmul) continue;
      CpuBaseline baseline{fmt::format("onednn-matmul-{}-{}t", to_string(layout), threads),
                           {},
                           layout,
                           threads,
                           false,
                           nullptr,
                           std::move(*matmul)};
      baseline.detail =
          fmt::format("{} {}, {} thread{}, {} operands as they are", baseline.matmul->version(),
                      baseline.matmul->implementation(), threads, threads > 1 ? "s" : "", to_string(problem_.element));
      list_.push_back(std::move(baseline));
    }
  }
}

// Conversion on all threads costs a hand-over that small problems do not earn back: the faster way counts.
void CpuBaselines::choose_conversion(CpuBaseline& baseline) {
  const std::vector<std::uint16_t> a(a_.size()), b(b_.size());
  std::vector<std::uint16_t> c(c_.size());
  double best[2] = {1e30, 1e30};
  for (int trial = 0; trial < kConversionTrials; ++trial) {
    for (const bool parallel : {false, true}) {
      baseline.parallel_conversion = parallel;
      const auto start = std::chrono::steady_clock::now();
      run(baseline, a.data(), b.data(), c.data());
      best[parallel] =
          std::min(best[parallel], std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
  }
  baseline.parallel_conversion = best[1] < best[0];
}

void CpuBaselines::run(const CpuBaseline& baseline, const std::uint16_t* a, const std::uint16_t* b, std::uint16_t* c) {
  if (baseline.matmul != nullptr) {
    baseline.matmul->run(a, b, c);
    return;
  }
  const int parts = baseline.parallel_conversion ? pool_.threads() : 1;
  // The share of `part`, in whole cache lines.
  const auto share = [parts](std::size_t count, int part) {
    const auto lines = static_cast<std::int64_t>(count + 63) / 64;
    return std::min(static_cast<std::int64_t>(count), lines * part / parts * 64);
  };
  const auto widen = [&](const std::uint16_t* source, std::vector<float>& target, int part) {
    const std::int64_t begin = share(target.size(), part), end = share(target.size(), part + 1);
    elements_to_floats(source + begin, target.data() + begin, end - begin, problem_.element);
  };
  pool_.run(
      parts,
      [&](int part) {
        widen(a, a_, part);
        widen(b, b_, part);
      },
      false);
  baseline.library->set_threads(baseline.threads);
  baseline.library->sgemm(baseline.layout == Layout::tn, problem_.m, problem_.n, problem_.k, a_.data(), b_.data(),
                          c_.data());
  pool_.run(
      parts,
      [&](int part) {
        const std::int64_t begin = share(c_.size(), part), end = share(c_.size(), part + 1);
        floats_to_elements(c_.data() + begin, c + begin, end - begin, problem_.element);
      },
      false);
}

std::map<std::string, std::string> baseline_versions() {
  const Libraries& found = libraries();
  const auto text = [](const Result<SgemmLibrary*>& library) {
    return library ? (*library)->version() : "missing: " + library.error().message;
  };
  return {{"openblas", text(found.openblas)},
          {"onednn", text(found.onednn)},
          {"onednn-f16-matmul", matmul_version(ElementType::f16)},
          {"onednn-bf16-matmul", matmul_version(ElementType::bf16)}};
}

}  // namespace warpsmith
