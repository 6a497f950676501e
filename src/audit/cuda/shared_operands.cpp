// Placement in units of 256 bytes, as cudaMalloc gives.
#include "audit/cuda/shared_operands.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "evaluate/gates.h"

namespace warpsmith::audit {

using cuda::check;

namespace {

constexpr std::int64_t kAlignWords = 128;
constexpr std::int64_t kJitterSteps = 64;
constexpr std::int64_t kZoneWords = 1 << 19;  // 1 MiB
constexpr const char* kRegionNames[] = {"A", "B", "C", "the workspace"};

std::int64_t align(std::int64_t words) { return (words + kAlignWords - 1) / kAlignWords * kAlignWords; }

std::array<std::int64_t, 4> region_words(const Problem& problem, std::int64_t workspace_bytes) {
  return {problem.m * problem.k, problem.k * problem.n, problem.m * problem.n, (workspace_bytes + 1) / 2};
}

std::int64_t gate_area_words(const std::array<std::int64_t, 4>& regions) {
  std::int64_t words = kZoneWords;
  for (const std::int64_t region : regions) words += kJitterSteps * kAlignWords + align(region) + kZoneWords;
  return words;
}

}  // namespace

std::size_t SharedOperands::bytes_needed(const Problem& problem, std::int64_t workspace_bytes, int sets) {
  const auto regions = region_words(problem, workspace_bytes);
  const std::int64_t set = align(regions[0]) + align(regions[1]) + align(regions[2]);
  return static_cast<std::size_t>(gate_area_words(regions) + sets * set) * sizeof(std::uint16_t);
}

SharedOperands::SharedOperands(SharedMemory& memory, const Problem& problem, std::int64_t workspace_bytes,
                               cuda::TimingOperands& timing, cudaStream_t stream)
    : memory_(memory),
      problem_(problem),
      stream_(stream),
      words_(region_words(problem, workspace_bytes)),
      gate_words_(gate_area_words(words_)),
      sets_(timing.count()),
      a_stride_(align(words_[kA])),
      b_stride_(align(words_[kB])),
      c_stride_(align(words_[kC])),
      totals_(sizeof(cuda::Totals)),
      row_(static_cast<std::size_t>(std::max(problem.k, problem.n)) * sizeof(std::uint16_t)) {
  for (int set = 0; set < sets_; ++set) {
    const cuda::OperandSet from = timing.operands(problem_.layout, set, set), to = timed(set);
    check(cudaMemcpyAsync(to.a, from.a, static_cast<std::size_t>(words_[kA]) * 2, cudaMemcpyDeviceToDevice, stream_),
          "cudaMemcpyAsync");
    check(cudaMemcpyAsync(to.b, from.b, static_cast<std::size_t>(words_[kB]) * 2, cudaMemcpyDeviceToDevice, stream_),
          "cudaMemcpyAsync");
  }
  place();
}

void SharedOperands::place() {
  key_ = draw_seed();
  std::uint64_t draw = key_;
  for (std::size_t i = order_.size() - 1; i > 0; --i) {
    draw = inputs::mix(draw + i);
    std::swap(order_[i], order_[draw % (i + 1)]);
  }
  std::int64_t cursor = 0;
  for (const int index : order_) {
    draw = inputs::mix(draw + 17);
    const auto at = static_cast<std::size_t>(index);
    begin_[at] = cursor + kZoneWords + static_cast<std::int64_t>(draw % kJitterSteps) * kAlignWords;
    cursor = begin_[at] + align(words_[at]);
  }
  for_each_zone([&](std::int64_t begin, std::int64_t end, const std::string&) {
    cuda::paint_zone(base(), begin, end, key_, stream_);
  });
  poison_workspace(0);
}

template <class Visit>
void SharedOperands::for_each_zone(Visit visit) const {
  std::int64_t begin = 0;
  std::string before = "the start";
  for (const int index : order_) {
    const auto at = static_cast<std::size_t>(index);
    visit(begin, begin_[at], before + " and " + kRegionNames[at]);
    begin = begin_[at] + words_[at];
    before = kRegionNames[at];
  }
  visit(begin, gate_words_, before + " and the end");
}

void SharedOperands::fill(const InputSpec& spec) {
  spec_ = spec;
  cuda::fill_input(spec, cuda::Matrix::a, problem_.a_is_k_major(), region(kA), stream_);
  cuda::fill_input(spec, cuda::Matrix::b, problem_.b_is_k_major(), region(kB), stream_);
}

void SharedOperands::poison_workspace(std::uint16_t pattern) {
  if (words_[kWorkspace] > 0) cuda::set_pattern(region(kWorkspace), words_[kWorkspace], pattern, stream_);
}

cuda::Totals SharedOperands::read_totals() {
  cuda::Totals result{};
  check(cudaMemcpyAsync(&result, totals_.data(), sizeof result, cudaMemcpyDeviceToHost, stream_), "cudaMemcpyAsync");
  check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
  return result;
}

CheckReport SharedOperands::check_surroundings() {
  CheckReport report{true, {}, 0, 0};
  auto* totals = totals_.as<cuda::Totals>();
  const auto record = [&](const std::string& what, std::int64_t origin) {
    const cuda::Totals found = read_totals();
    if (found.bad == 0) return;
    report.passed = false;
    report.bad += static_cast<std::int64_t>(found.bad);
    if (!report.detail.empty()) return;
    report.detail = fmt::format("{}: {} elements changed, the first at offset {}", what, found.bad,
                                static_cast<std::int64_t>(found.first) - origin);
  };
  for_each_zone([&](std::int64_t begin, std::int64_t end, const std::string& name) {
    cuda::clear_totals(totals, stream_);
    cuda::count_zone_damage(base(), begin, end, key_, totals, stream_);
    record("the red zone between " + name, begin);
  });
  for (const auto& [matrix, index] : {std::pair{cuda::Matrix::a, kA}, {cuda::Matrix::b, kB}}) {
    cuda::clear_totals(totals, stream_);
    cuda::count_changed_input(spec_, matrix, index == kA ? problem_.a_is_k_major() : problem_.b_is_k_major(),
                              region(index), totals, stream_);
    record(std::string("the input ") + kRegionNames[index], 0);
  }
  return report;
}

void SharedOperands::swap_rows_of_a(std::int64_t first, std::int64_t second) {
  const auto bytes = static_cast<std::size_t>(problem_.k) * sizeof(std::uint16_t);
  const auto copy = [&](void* to, const void* from) {
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream_), "cudaMemcpyAsync");
  };
  std::uint16_t* a = region(kA);
  copy(row_.data(), a + first * problem_.k);
  copy(a + first * problem_.k, a + second * problem_.k);
  copy(a + second * problem_.k, row_.data());
}

cuda::OperandSet SharedOperands::timed(int set) const {
  std::uint16_t* a = base() + gate_words_;
  std::uint16_t* b = a + a_stride_ * sets_;
  std::uint16_t* c = b + b_stride_ * sets_;
  return {a + a_stride_ * set, b + b_stride_ * set, c + c_stride_ * set};
}

void SharedOperands::poison_timed(std::uint16_t pattern) {
  cuda::set_pattern(timed(0).c, c_stride_ * sets_, pattern, stream_);
  poison_workspace(pattern);
}

void SharedOperands::queue_poison_count(std::uint16_t pattern, cuda::Totals* totals) const {
  cuda::clear_totals(totals, stream_);
  cuda::count_equal(timed(0).c, c_stride_ * sets_, pattern, totals, stream_);
}

void SharedOperands::read_inputs(int set, unsigned* sink) const {
  cuda::read_through(timed(set).a, a_stride_ * 2 / 16 * 16, sink, stream_);
  cuda::read_through(timed(set).b, b_stride_ * 2 / 16 * 16, sink, stream_);
}

CheckReport SharedOperands::check_timed_inputs(const cuda::TimingOperands& timing) {
  CheckReport report{true, {}, 0, 0};
  auto* totals = totals_.as<cuda::Totals>();
  cuda::clear_totals(totals, stream_);
  for (int set = 0; set < sets_; ++set) {
    const InputSpec& spec = timing.spec(set);
    cuda::count_changed_input(spec, cuda::Matrix::a, problem_.a_is_k_major(), timed(set).a, totals, stream_);
    cuda::count_changed_input(spec, cuda::Matrix::b, problem_.b_is_k_major(), timed(set).b, totals, stream_);
  }
  report.bad = static_cast<std::int64_t>(read_totals().bad);
  report.passed = report.bad == 0;
  if (!report.passed) report.detail = fmt::format("{} elements of timed inputs were changed", report.bad);
  return report;
}

std::uint64_t SharedOperands::offset_of(const void* address) const {
  return static_cast<std::uint64_t>(static_cast<const std::byte*>(address) -
                                    static_cast<const std::byte*>(memory_.data()));
}

// The longer tails make call two's first blocks read what call one's last blocks write, whatever the order of blocks.
std::vector<std::int64_t> SharedOperands::chain_shifts(cuda::Matrix through) const {
  const std::int64_t c = words_[kC], operand = words_[through == cuda::Matrix::a ? kA : kB];
  std::vector<std::int64_t> shifts;
  for (const std::int64_t tail : {c, std::min(c, operand), c / 4, c / 16}) {
    const std::int64_t shift = (c - tail) / kAlignWords * kAlignWords;
    if (tail > 0 && std::find(shifts.begin(), shifts.end(), shift) == shifts.end()) shifts.push_back(shift);
  }
  return shifts;
}

std::int64_t SharedOperands::chain_begin() const { return align(words_[kWorkspace]) + kZoneWords; }

SharedOperands::Chain SharedOperands::chain(cuda::Matrix through, std::int64_t shift) const {
  Chain result;
  const int set = chained_set();
  result.first = timed(0);
  result.second = timed(set);
  result.first.c = base() + chain_begin();
  std::uint16_t* operand = result.first.c + shift;
  (through == cuda::Matrix::a ? result.second.a : result.second.b) = operand;
  result.shared_words = std::min(words_[kC] - shift, words_[through == cuda::Matrix::a ? kA : kB]);
  return result;
}

void SharedOperands::prepare_chain(const Chain& chain, cuda::Matrix through, std::uint16_t pattern) {
  const bool is_a = through == cuda::Matrix::a;
  const cuda::OperandSet values = timed(chained_set());
  // Where the operand is longer than what the first call writes, it holds a timed set's values.
  check(cudaMemcpyAsync(is_a ? chain.second.a : chain.second.b, is_a ? values.a : values.b,
                        static_cast<std::size_t>(words_[is_a ? kA : kB]) * 2, cudaMemcpyDeviceToDevice, stream_),
        "cudaMemcpyAsync");
  cuda::set_pattern(chain.first.c, words_[kC], pattern, stream_);
  cuda::set_pattern(chain.second.c, c_stride_, pattern, stream_);
  if (words_[kWorkspace] > 0) cuda::set_pattern(base() + kChainWorkspace, words_[kWorkspace], pattern, stream_);
  check(cudaStreamSynchronize(stream_), "preparing two calls");
}

void SharedOperands::queue_output_hash(const Chain& chain, unsigned long long* hash) const {
  cuda::hash_slab(chain.second.c, c_stride_, c_stride_, c_stride_, 1, hash, stream_);
}

nlohmann::json SharedOperands::chain_table(const Chain& chain) const {
  nlohmann::json table = table_head(offset_of(base() + kChainWorkspace));
  table["table"] = "chain";
  table["sets"] = nlohmann::json::array();
  for (const cuda::OperandSet& set : {chain.first, chain.second}) {
    table["sets"].push_back({offset_of(set.a), offset_of(set.b), offset_of(set.c)});
  }
  return table;
}

nlohmann::json SharedOperands::table_head(std::uint64_t workspace) const {
  return {{"m", problem_.m},        {"n", problem_.n},
          {"k", problem_.k},        {"b_is_col_major", problem_.b_is_k_major() ? 1 : 0},
          {"workspace", workspace}, {"workspace_bytes", words_[kWorkspace] * 2}};
}

nlohmann::json SharedOperands::gate_table() const {
  nlohmann::json table = table_head(offset_of(region(kWorkspace)));
  const cuda::OperandSet set = gate();
  table["table"] = "gate";
  table["sets"] = {nlohmann::json{offset_of(set.a), offset_of(set.b), offset_of(set.c)}};
  return table;
}

nlohmann::json SharedOperands::timed_table(bool cold) const {
  nlohmann::json table = table_head(offset_of(region(kWorkspace)));
  table["table"] = cold ? "cold" : "warm";
  nlohmann::json list = nlohmann::json::array();
  for (int set = 0; set < sets_; ++set) {
    const cuda::OperandSet inputs = timed(cold ? set : 0), output = timed(set);
    list.push_back(nlohmann::json{offset_of(inputs.a), offset_of(inputs.b), offset_of(output.c)});
  }
  table["sets"] = std::move(list);
  return table;
}

}  // namespace warpsmith::audit
