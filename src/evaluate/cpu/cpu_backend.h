// The CPU backend: candidates are shared objects that run inside the worker process.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "codegen/launch.h"
#include "cpu/kernel_abi.h"
#include "evaluate/backend.h"
#include "evaluate/cpu/baselines.h"
#include "evaluate/cpu/guarded_buffer.h"
#include "evaluate/cpu/reference.h"
#include "evaluate/cpu/thread_pool.h"
#include "evaluate/cpu/timing_sets.h"

namespace warpsmith {

class CpuBackend : public Backend {
 public:
  explicit CpuBackend(int threads);
  ~CpuBackend() override;

  const Machine& machine() const override { return machine_; }
  Status prepare(const Problem& problem, std::uint64_t seed) override;
  Status load(const Artifact& artifact, const nlohmann::json& launch) override;
  void unload() override;
  Status change_layout(Layout layout) override;
  Result<int> keep_candidate() override;

  Status fill(InputKind kind, std::uint64_t seed) override;
  Status refill(InputKind kind, std::uint64_t seed) override;
  Status run_once(std::uint16_t poison) override;
  Status run_kept(std::uint16_t poison) override;
  Status run_stale(std::uint16_t poison, const inputs::Holes& holes) override;
  CheckReport check(Criterion criterion) override;
  CheckReport check_untouched() override;
  std::uint64_t output_hash() override;
  std::int64_t count_equal_to(std::uint16_t pattern) override;
  Result<CheckReport> check_state() override;

  Result<std::vector<std::string>> open_baselines() override;
  std::string baseline_detail(int subject) override;
  Result<double> arm(int subject, bool cold, bool pdl) override;
  Result<double> time_batch(int subject, bool cold, bool pdl) override;
  int launches_per_batch(int subject, bool cold, bool pdl) override;
  Status ready_call(int subject, bool cold) override;
  Result<double> call(int subject, bool cold) override;
  double clock_mhz() override;
  Result<CheckReport> check_timed_outputs(int subject) override;

 private:
  // An input with its reference, kept for later candidates.
  struct Entry {
    std::vector<std::uint16_t> a, b;  // empty where the operands are too large to keep: made again when needed
    std::uint64_t a_hash = 0, b_hash = 0;
    std::shared_ptr<const Reference> reference;
  };
  struct Armed {
    int launches = 1;  // per batch
  };
  // A candidate in this process.
  struct Loaded {
    void* library = nullptr;
    WarpsmithCpuKernel kernel = nullptr;
    CpuLaunch launch;
    GuardedBuffer workspace;
    Layout layout = Layout::nn;
    std::set<int> written;  // sets that its timed launches have written
  };

  Entry& entry_for(InputKind kind, std::uint64_t seed);
  void make_operands(InputKind kind, std::uint64_t seed, std::uint16_t* a, std::uint16_t* b) const;
  void copy_operands(const Entry& entry, InputKind kind, std::uint64_t seed);
  Status run_for_a_gate();
  void run_candidate(Loaded& candidate, const std::uint16_t* a, const std::uint16_t* b, std::uint16_t* c);
  Loaded& candidate(int subject) { return subject == 0 ? loaded_ : kept_[static_cast<std::size_t>(-subject - 1)]; }
  void forget(int subject);  // what was armed of it
  void drop_kept();
  void launch(int subject, int set);
  void settle(int subject);
  double batch_us(int subject, bool cold, int launches);
  const CpuBaseline& baseline(int subject) const { return baselines_->list()[static_cast<std::size_t>(subject - 1)]; }

  ThreadPool pool_;
  Machine machine_;
  std::optional<Problem> problem_;
  std::uint64_t timing_seed_ = 0;
  std::map<std::pair<InputKind, std::uint64_t>, Entry> entries_;

  // The gates' operands, at new addresses after every fill().
  GuardedBuffer a_, b_, c_;
  const Entry* current_ = nullptr;
  std::uint64_t fills_ = 0, fills_since_load_ = 0;

  Loaded loaded_;                            // subject 0
  std::vector<Loaded> kept_;                 // subjects -1, -2 ..
  std::optional<std::uint64_t> state_hash_;  // of the candidate's writable data after its first run

  std::unique_ptr<TimingSets> sets_;
  std::unique_ptr<CpuBaselines> baselines_;
  std::map<std::pair<int, bool>, Armed> armed_;  // by (subject, cold)
  std::map<int, std::int64_t> cold_launches_;    // of each subject so far: where its rotation stands
  std::int64_t calls_ = 0;                       // cold ones, of all subjects
  int call_set_ = 0;                             // which ready_call() chose
  int last_subject_ = 0;
};

}  // namespace warpsmith
