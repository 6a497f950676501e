// C++ references run in warpsmith-task-host, unconfined: they are the user's own code, and a crash costs a process.
#include "task/reference.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <thread>

#include "task/foreign_host.h"

namespace warpsmith::task {

namespace {

constexpr double kLimitSeconds = 250;                 // of one data set
constexpr std::int64_t kMostKeptBytes = 256LL << 20;  // of the memory of a process that stays

// A NaN that no arithmetic makes.
double unwritten() { return double_from_bits(0x7ff4deadbeef1234ULL); }

class CppReference final : public Reference {
 public:
  CppReference(std::filesystem::path object, std::filesystem::path host)
      : object_(std::move(object)), host_(std::move(host)) {}

  Status complete(const Instance& instance, Dataset& dataset) override {
    const Status done = run(instance, dataset);
    if (done) return done;
    return Error{done.error().kind, fmt::format("the reference of {}: {}", instance.describe(), done.error().message)};
  }

  bool concurrent() const override { return true; }  // calls at the same time have processes of their own

 private:
  static ArgumentTable table_of(const Instance& instance, const ReferenceLayout& layout) {
    ArgumentTable table;
    for (const std::int64_t place : layout.places) table.push_back({Word::Kind::address, place, 0});
    std::size_t integer = 0, real = 0;
    for (const Constant& constant : instance.task->constants) {
      table.push_back(constant.real ? Word{Word::Kind::real, 0, instance.values().reals[real++]}
                                    : Word{Word::Kind::integer, instance.values().integers[integer++], 0});
    }
    return table;
  }

  // A process with its memory, ready for data of one setting.
  struct Idle {
    Instance instance;
    SharedMemory memory;
    ForeignHost host;
    bool stays = false;  // a process ends with the thread that started it
  };

  Status run(const Instance& instance, Dataset& dataset) {
    const ReferenceLayout layout = reference_layout(instance);
    auto ready = idle_for(instance, layout);
    if (!ready) return ready.error();
    std::unique_ptr<Idle> idle = std::move(*ready);
    write_reference_inputs(instance, dataset, layout, idle->memory.data());
    if (const auto ran = idle->host.run(0); !ran) return ran.error();
    const Status read = read_reference_outputs(instance, layout, idle->memory.data(), dataset);
    if (!read || !idle->stays || layout.bytes > kMostKeptBytes) return read;
    const std::lock_guard lock(mutex_);
    idle_ = std::move(idle);
    return read;
  }

  // The one that is kept, or a new one.
  Result<std::unique_ptr<Idle>> idle_for(const Instance& instance, const ReferenceLayout& layout) {
    {
      const std::lock_guard lock(mutex_);
      std::unique_ptr<Idle> kept = std::move(idle_);
      const bool fits = kept && kept->instance.task == instance.task && kept->instance.setting == instance.setting &&
                        kept->memory.bytes() == layout.bytes;
      if (fits) return kept;
    }
    auto memory = SharedMemory::create(layout.bytes);
    if (!memory) return memory.error();
    auto host = ForeignHost::start({false, kLimitSeconds, host_, {}}, *memory, object_);
    if (!host) return host.error();
    if (const Status loaded = host->load(kReferenceEntry); !loaded) return loaded.error();
    if (const Status set = host->set_tables({table_of(instance, layout)}); !set) return set.error();
    if (const Status set = host->set_order(0, {0}); !set) return set.error();
    return std::make_unique<Idle>(
        Idle{instance, std::move(*memory), std::move(*host), std::this_thread::get_id() == owner_});
  }

  std::filesystem::path object_, host_;
  const std::thread::id owner_ = std::this_thread::get_id();
  std::mutex mutex_;
  std::unique_ptr<Idle> idle_;  // null: there is none, or it is in use
};

// Calls body(tensor, whether these are its magnitudes) for all that a reference works on.
template <class Body>
void for_each_array(const Instance& instance, Body body) {
  const Task& task = *instance.task;
  for (std::size_t i = 0; i < instance.tensors.size(); ++i) {
    body(i, false);
    if (i >= task.inputs.size() && task.outputs[i - task.inputs.size()].tolerance.scaled) body(i, true);
  }
}

}  // namespace

ReferenceLayout reference_layout(const Instance& instance) {
  ReferenceLayout layout;
  for_each_array(instance, [&](std::size_t i, bool) {
    layout.places.push_back(layout.bytes);
    layout.bytes += instance.tensors[i].elements * std::int64_t{sizeof(double)};
  });
  return layout;
}

DescriptorNames reference_names(const Task& task) {
  DescriptorNames names = task.names();
  names.pointers.clear();
  for (const Input& input : task.inputs) names.pointers.push_back(input.name);
  for (const Output& output : task.outputs) {
    names.pointers.push_back(output.name);
    if (output.tolerance.scaled) names.pointers.push_back(output.name + "_scale");
  }
  return names;
}

void write_reference_inputs(const Instance& instance, const Dataset& dataset, const ReferenceLayout& layout,
                            std::byte* memory) {
  std::size_t next = 0;
  for_each_array(instance, [&](std::size_t i, bool) {
    auto* values = reinterpret_cast<double*>(memory + layout.places[next++]);
    const Tensor& tensor = instance.tensors[i];
    if (tensor.output) {
      std::fill(values, values + tensor.elements, unwritten());
    } else {
      const std::vector<double> widened = widen(tensor, dataset.inputs[i].data());
      std::memcpy(values, widened.data(), widened.size() * sizeof(double));
    }
  });
}

Status read_reference_outputs(const Instance& instance, const ReferenceLayout& layout, const std::byte* memory,
                              Dataset& dataset) {
  dataset.expected.assign(instance.task->outputs.size(), {});
  dataset.magnitudes = dataset.expected;
  std::size_t next = 0;
  std::string missing;
  for_each_array(instance, [&](std::size_t i, bool magnitudes) {
    const auto* values = reinterpret_cast<const double*>(memory + layout.places[next++]);
    const Tensor& tensor = instance.tensors[i];
    if (!tensor.output) return;
    auto& list = (magnitudes ? dataset.magnitudes : dataset.expected)[i - instance.task->inputs.size()];
    list.assign(values, values + tensor.elements);
    const bool whole = std::none_of(list.begin(), list.end(),
                                    [](double value) { return double_bits(value) == double_bits(unwritten()); });
    if (!whole) missing = tensor.name;
  });
  if (!missing.empty()) return failure(fmt::format("it leaves elements of {} unwritten", missing));
  return ok_status();
}

std::unique_ptr<Reference> make_cpp_reference(std::filesystem::path object, std::filesystem::path host) {
  return std::make_unique<CppReference>(std::move(object), std::move(host));
}

Candidate reference_candidate(const Task& task, const Machine& machine) {
  Candidate candidate;
  candidate.language = Language::cpp;
  candidate.arch = machine.avx512 ? "x86-64-v4" : "x86-64-v3";
  candidate.source =
      reference_prologue(task) + fmt::format("#line 1 \"{}\"\n", task.reference_name) + task.reference_source;
  candidate.launch = CpuLaunch{kReferenceEntry, 1, 0, {}};
  return candidate;
}

Result<Candidate> cuda_reference_candidate(const Instance& instance, const Machine& machine) {
  const Task& task = *instance.task;
  std::filesystem::path descriptor = task.directory / task.reference_name;
  descriptor.replace_extension(".json");
  const auto form =
      parse_candidate(task.reference_descriptor, task.reference_source, descriptor, reference_names(task));
  if (!form) return form.error();
  TaskBinding binding;
  binding.what = instance.describe();
  binding.variables = instance.values().integers;
  binding.variables.push_back(machine.units);
  for (const double real : instance.values().reals) binding.numbers.push_back(static_cast<float>(real));
  const ReferenceLayout layout = reference_layout(instance);
  binding.pointers = layout.places;
  binding.workspace = layout.bytes;
  return instantiate(*form, binding, machine);
}

}  // namespace warpsmith::task
