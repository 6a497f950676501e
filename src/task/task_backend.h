// A task at one setting as a Backend, so that the gate sequence and the timing loop are those of matrix products: data,
// poison, red zones and judging on the host, over whatever device runs the candidate.
#pragma once

#include <array>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
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
  // Both must outlive it. timing_seed: of the data that are timed, where a device forgets them.
  TaskBackend(TaskDevice& device, Reference& reference, std::uint64_t timing_seed);

  // Turns to a setting, for a candidate with such a workspace. `instance` is copied, its task must outlive this.
  Status open(const Instance& instance, std::int64_t workspace_bytes, bool zero_workspace);
  // Makes the inputs and references that gates will use.
  Status make_data(const std::vector<GateInput>& gates);
  Status make_timing_data();
  // The reference failed while results of timed launches were looked at: nothing is known of the candidate.
  const std::optional<Error>& fault() const { return fault_; }
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
  Result<CheckReport> check_state() override { return device_.check_state(); }

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
  Result<CheckReport> check_timed_outputs(int subject) override;

 private:
  using Bytes = std::vector<std::byte>;
  // What a data set is made from: a gate's distribution, or (nothing) what is timed.
  struct Source {
    std::optional<InputKind> kind;
    std::uint64_t seed = 0;
    auto operator<=>(const Source&) const = default;
  };
  using DataKey = std::pair<int, Source>;  // setting

  Result<std::shared_ptr<const Dataset>> dataset(const Source& source);
  Result<Dataset> make(const Source& source);
  std::shared_ptr<const Dataset> known(const Source& source) const;  // null: it was not made yet
  std::shared_ptr<const Dataset> keep(const Source& source, Dataset data);
  // All of these at once, as far as the reference allows.
  Status make_all(const std::vector<Source>& wanted);
  // Nothing else needs it: the next batch has other data.
  bool passes(const Source& source) const { return !source.kind && device_.remembers(); }
  std::uint64_t lasting_seed(int slab) const;
  Source timed_source(int slab) const { return {std::nullopt, slab_seeds_[static_cast<std::size_t>(slab)]}; }
  Bytes image_of(const std::vector<std::vector<std::byte>>& inputs, std::uint16_t poison) const;
  bool is_output(std::size_t tensor) const { return instance_.tensors[tensor].output; }
  void poison_outputs(Bytes& image, std::uint16_t poison) const;
  void scatter_poison(Bytes& image, std::uint16_t poison, const inputs::Holes& holes) const;
  // holes: outputs keep what the last run left, but for them; null: they are poisoned.
  Status run(std::uint16_t poison, bool keep_workspace, const inputs::Holes* holes);
  CheckReport judge(const Bytes& slab, const Dataset& data) const;
  CheckReport compare_untouched(const Bytes& slab, const Bytes& image) const;
  std::string place_of(std::int64_t offset) const;
  std::vector<int>& order(bool warm) { return orders_[warm ? 1 : 0]; }
  // Data of their own into those of these slabs that hold none, or into all.
  Status write_timed(const std::vector<int>& slabs, bool renew);
  Status poison_timed(const std::vector<int>& slabs);
  // Outputs poisoned; cold: data that no candidate can know; warm: inputs in the caches.
  Status make_ready(bool warm);
  int slab_to_look_at(bool warm);
  std::vector<int> last_looks(bool warm);
  Result<double> arm_slabs(bool warm);
  Result<double> time_armed(bool warm);
  CheckReport check_timed_slab(int slab, bool warm);
  CheckReport failed_reference(const Error& error);

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
  std::optional<TimedInputs> timed_inputs_;
  std::vector<std::uint64_t> slab_seeds_;  // of the data that slabs hold for timing; 0: none
  std::vector<int> slab_order_;            // all slabs in an order that nobody can foresee; the first are timed
  std::map<Source, std::shared_ptr<const Dataset>> batch_data_;  // of the present batch, where the next has others
  std::mt19937_64 look_generator_;
  CheckReport timed_{true, {}, 0, 0};
  std::optional<Error> fault_;
};

}  // namespace warpsmith::task
