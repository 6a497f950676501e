// Placement and red zones.
#include "evaluate/cuda/gate_operands.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace warpsmith::cuda {

namespace {

constexpr std::int64_t kAlignWords = 128;        // 256 bytes, as cudaMalloc gives
constexpr std::int64_t kJitterSteps = 64;        // of kAlignWords
constexpr std::int64_t kSmallestZone = 1 << 19;  // words: 1 MiB
constexpr std::int64_t kLargestZone = 1 << 24;   // words: 32 MiB
constexpr std::int64_t kZoneRows = 64;           // a tile's rows of C fit the zone behind it
constexpr const char* kRegionNames[] = {"A", "B", "C", "the workspace"};

std::int64_t align(std::int64_t words) { return (words + kAlignWords - 1) / kAlignWords * kAlignWords; }

}  // namespace

GateOperands::GateOperands(const Problem& problem, std::int64_t workspace_bytes, cudaStream_t stream)
    : problem_(problem), stream_(stream), totals_(sizeof(Totals)) {
  words_ = {problem.m * problem.k, problem.k * problem.n, problem.m * problem.n, (workspace_bytes + 1) / 2};
  zone_words_ = align(std::clamp(kZoneRows * problem.n, kSmallestZone, kLargestZone));
  slab_words_ = zone_words_ + kJitterSteps * kAlignWords;
  for (const std::int64_t words : words_) slab_words_ += align(words) + zone_words_ + kJitterSteps * kAlignWords;
  slab_ = DeviceBuffer(static_cast<std::size_t>(slab_words_) * sizeof(std::uint16_t));
}

template <class Visit>
void GateOperands::for_each_zone(Visit visit) const {
  std::int64_t begin = 0;
  std::string before = "the start";
  for (const int index : order_) {
    const auto at = static_cast<std::size_t>(index);
    visit(begin, begin_[at], before + " and " + kRegionNames[at]);
    begin = begin_[at] + words_[at];
    before = kRegionNames[at];
  }
  visit(begin, slab_words_, before + " and the end");
}

void GateOperands::arrange(const InputSpec& spec, std::uint64_t run) {
  spec_ = spec;
  key_ = inputs::mix(run + 0x243f6a8885a308d3ULL);
  std::uint64_t draw = key_;
  for (std::size_t i = order_.size() - 1; i > 0; --i) {
    draw = inputs::mix(draw + i);
    std::swap(order_[i], order_[draw % (i + 1)]);
  }
  std::int64_t cursor = 0;
  for (const int index : order_) {
    draw = inputs::mix(draw + 17);
    const auto at = static_cast<std::size_t>(index);
    begin_[at] = cursor + zone_words_ + static_cast<std::int64_t>(draw % kJitterSteps) * kAlignWords;
    cursor = begin_[at] + align(words_[at]);
  }
  for_each_zone([&](std::int64_t begin, std::int64_t end, const std::string&) {
    paint_zone(slab_.as<std::uint16_t>(), begin, end, key_, stream_);
  });
  fill_input(spec_, Matrix::a, problem_.a_is_k_major(), region(0), stream_);
  fill_input(spec_, Matrix::b, problem_.b_is_k_major(), region(1), stream_);
  if (words_[3] > 0) set_pattern(region(3), words_[3], 0, stream_);
}

void GateOperands::poison(std::uint16_t pattern, bool zero_workspace) {
  set_pattern(region(2), words_[2], pattern, stream_);
  if (words_[3] > 0 && !zero_workspace) set_pattern(region(3), words_[3], pattern, stream_);
}

Totals GateOperands::read_totals() {
  Totals result{};
  check(cudaMemcpyAsync(&result, totals_.data(), sizeof result, cudaMemcpyDeviceToHost, stream_), "cudaMemcpyAsync");
  check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
  return result;
}

CheckReport GateOperands::check_untouched(bool zero_workspace) {
  CheckReport report{true, {}, 0, 0};
  auto* totals = totals_.as<Totals>();
  const auto record = [&](const std::string& what, std::int64_t origin) {
    const Totals found = read_totals();
    if (found.bad == 0) return;
    report.passed = false;
    report.bad += static_cast<std::int64_t>(found.bad);
    if (!report.detail.empty()) return;
    report.detail = fmt::format("{}: {} elements changed, the first at offset {}", what, found.bad,
                                static_cast<std::int64_t>(found.first) - origin);
  };
  for_each_zone([&](std::int64_t begin, std::int64_t end, const std::string& name) {
    clear_totals(totals, stream_);
    count_zone_damage(slab_.as<std::uint16_t>(), begin, end, key_, totals, stream_);
    record("the red zone between " + name, begin);
  });
  for (const Matrix matrix : {Matrix::a, Matrix::b}) {
    const bool is_a = matrix == Matrix::a;
    clear_totals(totals, stream_);
    count_changed_input(spec_, matrix, is_a ? problem_.a_is_k_major() : problem_.b_is_k_major(), region(is_a ? 0 : 1),
                        totals, stream_);
    record(is_a ? "the input A" : "the input B", 0);
  }
  if (zero_workspace && words_[3] > 0) {
    clear_totals(totals, stream_);
    count_unequal(region(3), words_[3], 0, totals, stream_);
    record("the workspace, which must be left cleared", 0);
  }
  return report;
}

}  // namespace warpsmith::cuda
