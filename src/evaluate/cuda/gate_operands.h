// The operands of the gates: A, B and C in one allocation, everything between them painted red; and a workspace between
// red zones of its own. Arrangements stay filled for the next candidate as far as memory goes.
#pragma once

#include <array>
#include <cstdint>
#include <list>
#include <string>

#include "evaluate/backend.h"
#include "evaluate/cuda/cuda_handles.h"
#include "evaluate/cuda/device_work.h"
#include "problem/problem.h"

namespace warpsmith::cuda {

// Device addresses that a launch works on.
struct OperandSet {
  std::uint16_t* a = nullptr;
  std::uint16_t* b = nullptr;
  std::uint16_t* c = nullptr;
  float alpha = 1, beta = 0;  // of a scaled problem
};

// The problem with operands stored in another layout. Gaps between rows keep their widths.
Problem stored_as(Problem problem, Layout layout);

// A candidate's workspace at an address that varies, between red zones.
class GateWorkspace {
 public:
  explicit GateWorkspace(cudaStream_t stream) : stream_(stream) {}

  // zero: the candidate wants it cleared and leaves it cleared.
  void resize(std::int64_t bytes, bool zero);
  std::int64_t bytes() const { return words_ * 2; }
  std::uint16_t* data() const { return words_ == 0 ? nullptr : slab_.as<std::uint16_t>() + begin_; }

  // Moves it and paints the zones; cleared where it has to be.
  void place(std::uint64_t run);
  void poison(std::uint16_t pattern);  // unless it has to be cleared
  // Adds damage to the observation.
  void queue_check(Observation* observation);
  // Empty: nothing is wrong.
  std::string describe(const Observation& seen) const;

 private:
  cudaStream_t stream_;
  DeviceBuffer slab_;
  std::int64_t words_ = 0, begin_ = 0, end_ = 0;  // end_: of the second zone
  bool zero_ = false;
  std::uint64_t key_ = 0;
};

class GateOperands {
 public:
  // keep_bytes: limits the arrangements that are kept; the present one is, whatever its size.
  GateOperands(const Problem& problem, std::int64_t keep_bytes, cudaStream_t stream);

  // A and B hold these inputs, at addresses of their own: an arrangement that was kept from an earlier candidate, or a
  // new one. No result of the arrangement before outlives this.
  void arrange(const InputSpec& spec);
  // Puts other inputs where the present ones are.
  void refill(const InputSpec& spec);
  const InputSpec& contents() const { return present_->contents; }
  OperandSet operands() const { return {region(0), region(1), region(2)}; }

  void poison_output(std::uint16_t pattern);
  void scatter_poison(std::uint16_t pattern, const inputs::Holes& holes);
  // C holds what input_c() says of the present inputs.
  void fill_old_output();
  // Adds damage between C's rows to the observation.
  void queue_gap_check(Observation* observation);

  // The hash of all but C, before the candidate runs and after it.
  void queue_hash(unsigned long long* hash);
  // Before: an arrangement that was kept is not what it was: something wrote there in the meantime. It is laid out
  // anew, and the step has to be started again.
  bool refresh_if_stale(const Observation& seen);
  // After a run that changed red zones, A or B: where. The arrangement is not used again.
  CheckReport describe_damage();

 private:
  static constexpr int kRegions = 3;  // A, B, C
  struct Arrangement {
    DeviceBuffer slab;
    std::array<std::int64_t, kRegions> begin{};
    std::array<int, kRegions> order{0, 1, 2};
    std::uint64_t key = 0;        // of the red zones and the hash
    InputSpec home, contents;     // home: what it was made for
    unsigned long long hash = 0;  // with `home` inside; meaningless while not hashed
    bool hashed = false;
  };

  std::uint16_t* region(int index) const {
    return present_->slab.as<std::uint16_t>() + present_->begin[static_cast<std::size_t>(index)];
  }
  Gaps gaps_of(int index) const;
  void lay_out(const InputSpec& spec);
  void fill(const InputSpec& spec);
  Totals read_totals();
  // Calls visit(begin, end, name) for every red zone, in words from the slab's start.
  template <class Visit>
  void for_each_zone(Visit visit) const;

  Problem problem_;
  cudaStream_t stream_;
  std::int64_t zone_words_ = 0, slab_words_ = 0;
  std::size_t most_kept_ = 1;
  std::array<std::int64_t, kRegions> words_{};
  std::list<Arrangement> kept_;  // latest use first
  Arrangement* present_ = nullptr;
  DeviceBuffer totals_;
};

}  // namespace warpsmith::cuda
