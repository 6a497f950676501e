// A task at one setting as a Backend, so that the gate sequence and the timing loop are those of matrix products: data,
// poison, red zones and judging on the host, over whatever device runs the candidate.
#pragma once

#include <array>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "evaluate/backend.h"
#include "evaluate/gates.h"
#include "task/data.h"
#include "task/reference.h"
#include "task/task_device.h"

namespace warpsmith::task {

// Gates of a task: coverage and repeatability on the declared data, the bound on these and on the others, freshness,
// state.
std::vector<GateInput> gates_of(const Task& task, std::uint64_t seed, std::uint64_t fresh_seed);

class TaskBackend final : public Backend {
 public:
  // Both must outlive it. timing_seed: of the data that are timed.
  TaskBackend(TaskDevice& device, Reference& reference, std::uint64_t timing_seed);

  // Turns to a setting, for a candidate with such a workspace. `instance` is copied, its task must outlive this.
  Status open(const Instance& instance, std::int64_t workspace_bytes, bool zero_workspace);
  // Makes the inputs and references that gates will use.
  Status make_data(const std::vector<GateInput>& gates);
  Status make_timing_data();
  // A time of the present setting that is too short to be true.
  std::optional<std::string> under_floor(const Measurement& measured) const;

  const Machine& machine() const override { return device_.machine(); }
  Status prepare(const Problem& problem, std::uint64_t seed) override;
  Status load(const Artifact& artifact, const nlohmann::json& launch) override;
  void unload() override { device_.unload(); }

  Status fill(InputKind kind, std::uint64_t seed) override;
  Status refill(InputKind kind, std::uint64_t seed) override;
  Status run_once(std::uint16_t poison) override { return run(poison, false, nullptr); }
  Status run_kept(std::uint16_t poison) override { return run(poison, true, nullptr); }
  Status run_stale(std::uint16_t poison, const inputs::Holes& holes) override { return run(poison, true, &holes); }
  CheckReport check(Criterion criterion) override;
  CheckReport check_untouched() override;
  std::uint64_t output_hash() override;
  std::int64_t count_equal_to(std::uint16_t pattern) override;
  CheckReport check_state() override { return device_.check_state(); }

  Result<std::vector<std::string>> open_baselines() override { return std::vector<std::string>(); }
  std::string baseline_detail(int) override { return {}; }
  Result<double> arm(int subject, bool cold, bool pdl) override;
  void set_batch(double batch_us, double) override { batch_us_ = batch_us; }
  Result<double> time_batch(int subject, bool cold, bool pdl) override;
  int launches_per_batch(int, bool cold, bool) override { return static_cast<int>(order(!cold).size()); }
  Status ready_call(int subject, bool cold) override;
  Result<double> call(int subject, bool cold) override;
  double clock_mhz() override { return device_.clock_mhz(); }
  std::vector<std::string> throttle_reasons() override { return device_.throttle_reasons(); }
  CheckReport check_timed_outputs(int subject) override;

 private:
  using Bytes = std::vector<std::byte>;
  using DataKey = std::tuple<int, InputKind, std::uint64_t>;  // setting, kind, seed

  Result<std::shared_ptr<const Dataset>> dataset(InputKind kind, std::uint64_t seed);
  Result<Dataset> make(InputKind kind, std::uint64_t seed);
  std::shared_ptr<const Dataset> keep(const DataKey& key, Dataset data);
  // All of these at once, as far as the reference allows.
  Status make_all(const std::vector<std::pair<InputKind, std::uint64_t>>& wanted);
  std::uint64_t timed_seed(int slab) const;
  Result<std::shared_ptr<const Dataset>> timed_data(int slab);
  Bytes image_of(const Dataset& data, std::uint16_t poison) const;
  bool is_output(std::size_t tensor) const { return instance_.tensors[tensor].output; }
  void poison_outputs(Bytes& image, std::uint16_t poison) const;
  void scatter_poison(Bytes& image, std::uint16_t poison, const inputs::Holes& holes) const;
  // holes: outputs keep what the last run left, but for them; null: they are poisoned.
  Status run(std::uint16_t poison, bool keep_workspace, const inputs::Holes* holes);
  CheckReport judge(const Bytes& slab, const Dataset& data) const;
  CheckReport compare_untouched(const Bytes& slab, const Bytes& image) const;
  std::string place_of(std::int64_t offset) const;
  std::vector<int>& order(bool warm) { return orders_[warm ? 1 : 0]; }
  Status write_timed_slabs(int count);
  Status poison_timed(const std::vector<int>& slabs);
  // Outputs poisoned; warm: inputs in the caches.
  Status make_ready(bool warm);
  Result<double> arm_slabs(bool warm);
  Result<double> time_armed(bool warm);
  CheckReport check_timed_slab(int slab, bool warm);

  TaskDevice& device_;
  Reference& reference_;
  std::uint64_t timing_seed_;
  std::map<DataKey, std::shared_ptr<const Dataset>> datasets_;
  std::list<DataKey> made_;  // oldest first
  std::int64_t dataset_bytes_ = 0;

  Instance instance_;
  SlabLayout layout_;
  bool zero_workspace_ = false;
  int slabs_ = 0, slab_ = 0;
  std::shared_ptr<const Dataset> data_;  // of the present step
  Bytes image_, result_;                 // what the slab held before and after the last run

  // --- timing ---
  double batch_us_ = 0;
  std::array<std::vector<int>, 2> orders_;  // slabs of an armed batch, cold and warm; none: it is not armed
  bool last_warm_ = false;                  // of the batch that was timed last
  std::map<int, Bytes> timed_images_;
  int written_slabs_ = 0;  // so many hold the data that are timed
  std::size_t next_look_ = 0;
  CheckReport timed_{true, {}, 0, 0};
};

}  // namespace warpsmith::task
