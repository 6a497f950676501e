// Planning and parallel compilation of kernel packs.
#include "library/pack_builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <set>
#include <thread>

#include "base/file.h"
#include "library/choice.h"
#ifdef WARPSMITH_HAVE_MODEL
#include "model/known_machines.h"
#endif

namespace warpsmith::library {

namespace {

// Shared memory that one block may ask for, by compute capability (CUDA C++ Programming Guide, technical
// specifications).
std::int64_t smem_bytes_per_block(int compute_capability) {
  switch (compute_capability) {
    case 80:
    case 87:
      return 163 << 10;
    case 90:
    case 100:
    case 103:
      return 227 << 10;
    default:
      return 99 << 10;
  }
}

class Planner {
 public:
  Planner(const Machine& machine, const PackVariants& variants, PackPlan& plan)
      : machine_(machine), variants_(variants), plan_(plan) {}

  void add_entry(const WisdomEntry& entry) {
    std::set<std::string> recipes = {entry.recipe};
    if (!entry.server_recipe.empty()) recipes.insert(entry.server_recipe);
    if (!entry.pdl_recipe.empty()) recipes.insert(entry.pdl_recipe);
    for (const std::string& text : recipes) {
      const auto recipe = parse_recipe(text);
      if (!recipe) {
        leave_out(entry.problem, recipe.error().message);
        continue;
      }
      for (const Problem& problem : variants_of(entry.problem)) add(*recipe, problem);
    }
  }

  void add(const Recipe& recipe, const Problem& problem) {
    auto candidate = generate(recipe, problem, machine_);
    if (!candidate) return leave_out(problem, candidate.error().message);
    if (candidate->language != Language::cuda) return leave_out(problem, "not a CUDA kernel");
    if (!variants_.arch.empty() && candidate->arch != variants_.arch) return;
    std::string key = kernel_key(candidate->arch, candidate->source);
    plan_.kernels.emplace(std::move(key), std::move(*candidate));
  }

 private:
  std::vector<Problem> variants_of(Problem problem) const {
    std::vector<Problem> all;
    const auto elements = variants_.elements.empty() ? std::vector<ElementType>{problem.element} : variants_.elements;
    for (const ElementType element : elements) {
      problem.element = element;
      problem.scaling = Scaling::none;
      all.push_back(problem);
      if (!variants_.scaled) continue;
      problem.scaling = Scaling::alpha_beta;
      all.push_back(problem);
    }
    return all;
  }

  void leave_out(const Problem& problem, const std::string& reason) {
    plan_.left_out.push_back(fmt::format("{}: {}", to_string(problem), reason));
  }

  const Machine& machine_;
  const PackVariants& variants_;
  PackPlan& plan_;
};

// What the compiling threads share.
struct Work {
  std::mutex mutex;
  std::map<std::string, Candidate>::const_iterator next, end;
  PackReport report;
  std::optional<Error> fatal;
  PackWriter writer;
};

void compile_all(Work& work, const Compiler& compiler, const std::atomic<bool>& stop,
                 const std::function<void(const PackProgress&)>& on_progress) {
  std::unique_lock lock(work.mutex);
  while (!stop.load() && !work.fatal && work.next != work.end) {
    const auto& [key, candidate] = *work.next++;
    lock.unlock();
    const Result<Artifact> artifact = compiler.compile(candidate);
    Result<std::string> cubin = artifact ? read_file(artifact->binary) : Result<std::string>(artifact.error());
    lock.lock();
    PackProgress& progress = work.report.progress;
    ++progress.done;
    if (cubin) {
      progress.from_cache += artifact->from_cache ? 1 : 0;
      work.writer.add(key, std::move(*cubin));
    } else if (cubin.error().kind == ErrorKind::environment) {
      if (!work.fatal) work.fatal = cubin.error();
    } else {
      ++progress.failed;
      if (work.report.failures.size() < kMostFailures) {
        work.report.failures.push_back(fmt::format("{}: {}", key, cubin.error().message));
      }
    }
    on_progress(progress);
  }
}

}  // namespace

Machine machine_of(const WisdomHeader& header) {
  Machine machine;
#ifdef WARPSMITH_HAVE_MODEL
  if (const std::optional<Machine> known = model::known_machine(wisdom_name(header));
      known && known->name == header.machine && known->compute_capability == header.compute_capability &&
      known->units == header.units) {
    machine.l2_bytes = known->l2_bytes;
    machine.resident_clusters = known->resident_clusters;
  }
#endif
  machine.name = header.machine;
  machine.kind = "cuda";
  machine.compute_capability = header.compute_capability;
  machine.units = header.units;
  machine.smem_bytes_per_block = smem_bytes_per_block(header.compute_capability);
  machine.registers_per_unit = 64 << 10;
  machine.versions = header.versions;
  return machine;
}

PackPlan plan_pack(const Wisdom& wisdom, const Machine& machine, const PackVariants& variants,
                   const std::vector<Problem>& problems) {
  PackPlan plan;
  Planner planner(machine, variants, plan);
  plan.entries = wisdom.size();
  for (const WisdomEntry& entry : wisdom.entries()) planner.add_entry(entry);
  if (problems.empty()) return plan;
  // Whatever a handle's options are.
  const auto index = std::make_shared<const WisdomIndex>(wisdom);
  const std::shared_ptr<const Ranking> ranking = model_ranking();
  for (const warpsmith_sharing_t sharing : {WARPSMITH_SHARING_EQUAL, WARPSMITH_SHARING_ANY}) {
    const Chooser chooser(machine, index, ranking, sharing);
    for (const Problem& problem : problems) {
      for (const warpsmith_mode_t mode : {WARPSMITH_MODE_OFFLINE, WARPSMITH_MODE_SERVER}) {
        for (const warpsmith_launch_t launch : {WARPSMITH_LAUNCH_PLAIN, WARPSMITH_LAUNCH_DEPENDENT}) {
          for (const Choice& choice : chooser.choose(problem, mode, launch)) {
            if (!choice.recipe) break;  // cuBLASLt comes before the rest
            planner.add(*choice.recipe, problem);
          }
        }
      }
    }
  }
  return plan;
}

Result<PackReport> build_pack(const PackPlan& plan, const Compiler& compiler, int jobs, nlohmann::json metadata,
                              const std::filesystem::path& output, const std::atomic<bool>& stop,
                              const std::function<void(const PackProgress&)>& on_progress) {
  Work work{{}, plan.kernels.begin(), plan.kernels.end(), {}, {}, PackWriter(std::move(metadata))};
  work.report.progress.total = plan.kernels.size();
  std::vector<std::thread> threads;
  for (int i = 1; i < jobs; ++i) threads.emplace_back([&] { compile_all(work, compiler, stop, on_progress); });
  compile_all(work, compiler, stop, on_progress);
  for (std::thread& thread : threads) thread.join();
  if (work.fatal) return *work.fatal;
  if (stop.load()) return failure("interrupted; kernels that are compiled stay in the cache");
  if (const Status written = work.writer.write(output); !written) return written.error();
  std::error_code error;
  work.report.file_bytes = std::filesystem::file_size(output, error);
  return std::move(work.report);
}

}  // namespace warpsmith::library
