// Placement, red zones, and what is kept of them.
#include "evaluate/cuda/gate_operands.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "evaluate/gates.h"

namespace warpsmith::cuda {

namespace {

constexpr std::int64_t kAlignWords = 128;        // 256 bytes, as cudaMalloc gives
constexpr std::int64_t kJitterSteps = 64;        // of kAlignWords
constexpr std::int64_t kSmallestZone = 1 << 19;  // words: 1 MiB
constexpr std::int64_t kLargestZone = 1 << 24;   // words: 32 MiB
constexpr std::int64_t kZoneRows = 64;           // a tile's rows of C fit the zone behind it
constexpr std::uint16_t kWiped = 0x7fab;
constexpr const char* kRegionNames[] = {"A", "B", "C"};

std::int64_t align(std::int64_t words) { return (words + kAlignWords - 1) / kAlignWords * kAlignWords; }

std::int64_t jitter(std::uint64_t draw) { return static_cast<std::int64_t>(draw % kJitterSteps) * kAlignWords; }

}  // namespace

Problem stored_as(Problem problem, Layout layout) {
  const std::int64_t gap_a = problem.a_ld() - problem.a_cols(), gap_b = problem.b_ld() - problem.b_cols();
  problem.layout = layout;
  problem.lda = problem.a_cols() + gap_a;
  problem.ldb = problem.b_cols() + gap_b;
  return problem;
}

void GateWorkspace::resize(std::int64_t bytes, bool zero) {
  words_ = (bytes + 1) / 2;
  zero_ = zero;
  if (words_ == 0) return;
  const std::int64_t needed = 2 * kSmallestZone + kJitterSteps * kAlignWords + align(words_);
  if (static_cast<std::int64_t>(slab_.bytes()) >= needed * 2) return;
  slab_ = {};
  slab_ = DeviceBuffer(static_cast<std::size_t>(needed) * 2);
}

void GateWorkspace::place(std::uint64_t run) {
  if (words_ == 0) return;
  key_ = draw_seed();
  begin_ = kSmallestZone + jitter(inputs::mix(run));
  end_ = begin_ + align(words_) + kSmallestZone;
  paint_zone(slab_.as<std::uint16_t>(), 0, begin_, key_, stream_);
  paint_zone(slab_.as<std::uint16_t>(), begin_ + words_, end_, key_, stream_);
  if (zero_) set_pattern(data(), words_, 0, stream_);
}

void GateWorkspace::poison(std::uint16_t pattern) {
  if (words_ > 0 && !zero_) set_pattern(data(), words_, pattern, stream_);
}

void GateWorkspace::queue_check(Observation* observation) {
  if (words_ == 0) return;
  auto* slab = slab_.as<std::uint16_t>();
  count_zone_damage(slab, 0, begin_, key_, &observation->workspace_zones, stream_);
  count_zone_damage(slab, begin_ + words_, end_, key_, &observation->workspace_zones, stream_);
  if (zero_) count_unequal(data(), words_, 0, &observation->workspace_dirty, stream_);
}

std::string GateWorkspace::describe(const Observation& seen) const {
  if (seen.workspace_zones.bad != 0) {
    return fmt::format("the red zones of the workspace: {} elements changed, the first at offset {} of its {} elements",
                       seen.workspace_zones.bad, static_cast<std::int64_t>(seen.workspace_zones.first) - begin_,
                       words_);
  }
  if (seen.workspace_dirty.bad != 0) {
    return fmt::format("the workspace, which must be left cleared: {} elements are not, the first at offset {}",
                       seen.workspace_dirty.bad, seen.workspace_dirty.first);
  }
  return {};
}

GateOperands::GateOperands(const Problem& problem, std::int64_t keep_bytes, cudaStream_t stream)
    : problem_(problem), stream_(stream), totals_(sizeof(Totals)) {
  words_ = {problem.a_extent(), problem.b_extent(), problem.c_extent()};
  zone_words_ = align(std::clamp(kZoneRows * problem.c_ld(), kSmallestZone, kLargestZone));
  slab_words_ = zone_words_ + kJitterSteps * kAlignWords;
  for (const std::int64_t words : words_) slab_words_ += align(words) + zone_words_ + kJitterSteps * kAlignWords;
  most_kept_ = static_cast<std::size_t>(std::max<std::int64_t>(1, keep_bytes / (slab_words_ * 2)));
}

template <class Visit>
void GateOperands::for_each_zone(Visit visit) const {
  std::int64_t begin = 0;
  std::string before = "the start";
  for (const int index : present_->order) {
    const auto at = static_cast<std::size_t>(index);
    visit(begin, present_->begin[at], before + " and " + kRegionNames[at]);
    begin = present_->begin[at] + words_[at];
    before = kRegionNames[at];
  }
  visit(begin, slab_words_, before + " and the end");
}

Gaps GateOperands::gaps_of(int index) const {
  if (index == 0) return {problem_.a_rows(), problem_.a_cols(), problem_.a_ld()};
  if (index == 1) return {problem_.b_rows(), problem_.b_cols(), problem_.b_ld()};
  return {problem_.m, problem_.n, problem_.c_ld()};
}

void GateOperands::lay_out(const InputSpec& spec) {
  Arrangement& arrangement = *present_;
  arrangement.key = draw_seed();
  arrangement.hashed = false;
  std::uint64_t draw = arrangement.key;
  for (std::size_t i = arrangement.order.size() - 1; i > 0; --i) {
    draw = inputs::mix(draw + i);
    std::swap(arrangement.order[i], arrangement.order[draw % (i + 1)]);
  }
  std::int64_t cursor = 0;
  for (const int index : arrangement.order) {
    draw = inputs::mix(draw + 17);
    const auto at = static_cast<std::size_t>(index);
    arrangement.begin[at] = cursor + zone_words_ + jitter(draw);
    cursor = arrangement.begin[at] + align(words_[at]);
  }
  for_each_zone([&](std::int64_t begin, std::int64_t end, const std::string&) {
    paint_zone(arrangement.slab.as<std::uint16_t>(), begin, end, arrangement.key, stream_);
  });
  for (int index = 0; index < kRegions; ++index) paint_gaps(region(index), gaps_of(index), arrangement.key, stream_);
  arrangement.home = spec;
  fill(spec);
}

void GateOperands::fill(const InputSpec& spec) {
  fill_input(spec, Matrix::a, problem_.a_is_k_major(), region(0), stream_, problem_.a_ld());
  fill_input(spec, Matrix::b, problem_.b_is_k_major(), region(1), stream_, problem_.b_ld());
  present_->contents = spec;
}

void GateOperands::arrange(const InputSpec& spec) {
  if (present_ != nullptr) poison_output(kWiped);
  const auto found = std::find_if(kept_.begin(), kept_.end(), [&](const Arrangement& one) { return one.home == spec; });
  if (found != kept_.end()) {
    kept_.splice(kept_.begin(), kept_, found);
    present_ = &kept_.front();
    if (!(present_->contents == spec)) fill(spec);
    return;
  }
  if (kept_.size() < most_kept_) {
    kept_.emplace_front().slab = DeviceBuffer(static_cast<std::size_t>(slab_words_) * sizeof(std::uint16_t));
  } else {
    kept_.splice(kept_.begin(), kept_, std::prev(kept_.end()));
  }
  present_ = &kept_.front();
  lay_out(spec);
}

void GateOperands::refill(const InputSpec& spec) { fill(spec); }

void GateOperands::poison_output(std::uint16_t pattern) {
  set_pattern(region(2), words_[2], pattern, stream_);
  paint_gaps(region(2), gaps_of(2), present_->key, stream_);
}

void GateOperands::scatter_poison(std::uint16_t pattern, const inputs::Holes& holes) {
  scatter_pattern(region(2), words_[2], pattern, holes, stream_);
  paint_gaps(region(2), gaps_of(2), present_->key, stream_);
}

void GateOperands::fill_old_output() { fill_output(present_->contents, problem_.c_ld(), region(2), stream_); }

void GateOperands::queue_gap_check(Observation* observation) {
  count_gap_damage(region(2), gaps_of(2), present_->key, &observation->output_gaps, stream_);
}

void GateOperands::queue_hash(unsigned long long* hash) {
  hash_slab(present_->slab.as<std::uint16_t>(), slab_words_, present_->begin[2], present_->begin[2] + words_[2],
            present_->key, hash, stream_);
}

bool GateOperands::refresh_if_stale(const Observation& seen) {
  if (!(present_->contents == present_->home)) return false;
  if (!present_->hashed) {
    present_->hash = seen.slab_before;
    present_->hashed = true;
    return false;
  }
  if (present_->hash == seen.slab_before) return false;
  lay_out(present_->home);
  return true;
}

Totals GateOperands::read_totals() {
  Totals result{};
  check(cudaMemcpyAsync(&result, totals_.data(), sizeof result, cudaMemcpyDeviceToHost, stream_), "cudaMemcpyAsync");
  check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
  return result;
}

CheckReport GateOperands::describe_damage() {
  CheckReport report;
  auto* totals = totals_.as<Totals>();
  const auto record = [&](const std::string& what, std::int64_t origin) {
    const Totals found = read_totals();
    if (found.bad == 0) return;
    report.bad += static_cast<std::int64_t>(found.bad);
    if (!report.detail.empty()) return;
    report.detail = fmt::format("{}: {} elements changed, the first at offset {}", what, found.bad,
                                static_cast<std::int64_t>(found.first) - origin);
  };
  for_each_zone([&](std::int64_t begin, std::int64_t end, const std::string& name) {
    clear_totals(totals, stream_);
    count_zone_damage(present_->slab.as<std::uint16_t>(), begin, end, present_->key, totals, stream_);
    record("the red zone between " + name, begin);
  });
  for (const Matrix matrix : {Matrix::a, Matrix::b}) {
    const bool is_a = matrix == Matrix::a;
    clear_totals(totals, stream_);
    count_changed_input(present_->contents, matrix, is_a ? problem_.a_is_k_major() : problem_.b_is_k_major(),
                        region(is_a ? 0 : 1), totals, stream_, is_a ? problem_.a_ld() : problem_.b_ld());
    record(is_a ? "the input A" : "the input B", 0);
    clear_totals(totals, stream_);
    count_gap_damage(region(is_a ? 0 : 1), gaps_of(is_a ? 0 : 1), present_->key, totals, stream_);
    record(is_a ? "between the rows of A" : "between the rows of B", 0);
  }
  if (report.bad == 0) report.detail = "red zones or inputs were changed while they were looked at";
  lay_out(present_->home);
  return report;
}

}  // namespace warpsmith::cuda
