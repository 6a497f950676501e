// A benchmark without protection, as many published ones are: candidate, operands, expected result, clock and report in
// one process. Each option is a weakness that a published harness has; the attack suite shows with it that an attack
// succeeds before it shows that it fails here. Prints one JSON line, {"right", "max_error", "time_us"}.
#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <nvrtc.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/subprocess.h"
#include "codegen/launch.h"
#include "naive_inputs.h"

namespace warpsmith::attacks {
namespace {

// Word after word: --name value. Every option has a default.
class Options {
 public:
  Options(int argc, char** argv) {
    for (int i = 1; i + 1 < argc; i += 2) values_[argv[i]] = argv[i + 1];
  }
  std::string text(const std::string& name, const std::string& otherwise = "") const {
    const auto found = values_.find("--" + name);
    return found == values_.end() ? otherwise : found->second;
  }
  double number(const std::string& name, double otherwise) const {
    return text(name).empty() ? otherwise : std::stod(text(name));
  }
  int integer(const std::string& name, int otherwise) const { return static_cast<int>(number(name, otherwise)); }

 private:
  std::map<std::string, std::string> values_;
};

[[noreturn]] void give_up(const std::string& why) {
  fmt::print(stderr, "{}\n", why);
  std::_Exit(3);
}

void check(cudaError_t status, const char* what) {
  if (status != cudaSuccess) give_up(fmt::format("{}: {}", what, cudaGetErrorString(status)));
}

struct Sizes {
  int m = 0, n = 0, k = 0;
};
Sizes parse_sizes(const std::string& text) {
  Sizes sizes;
  if (std::sscanf(text.c_str(), "%dx%dx%d", &sizes.m, &sizes.n, &sizes.k) != 3) give_up("sizes: MxNxK, not " + text);
  return sizes;
}

// A pool as frameworks have: blocks are never cleared, and a freed block is the next one's memory.
class Pool {
 public:
  Pool() { check(cudaMalloc(reinterpret_cast<void**>(&memory_), kBytes), "cudaMalloc"); }
  std::uint16_t* take(std::int64_t elements) {
    const std::int64_t bytes = (2 * elements + 255) / 256 * 256;
    for (auto block = free_.begin(); block != free_.end(); ++block) {
      if (block->second < bytes) continue;
      auto* const address = block->first;
      free_.erase(block);
      return reinterpret_cast<std::uint16_t*>(address);
    }
    if (used_ + bytes > kBytes) give_up("the pool is empty");
    used_ += bytes;
    return reinterpret_cast<std::uint16_t*>(memory_ + used_ - bytes);
  }
  void give_back(std::uint16_t* block, std::int64_t elements) {
    free_.emplace_back(reinterpret_cast<std::byte*>(block), (2 * elements + 255) / 256 * 256);
  }

 private:
  static constexpr std::int64_t kBytes = 1LL << 30;
  std::byte* memory_ = nullptr;
  std::int64_t used_ = 0;
  std::vector<std::pair<std::byte*, std::int64_t>> free_;
};

struct Operands {
  std::uint16_t *a = nullptr, *b = nullptr, *c = nullptr;
};

// --- candidates ---

class Candidate {
 public:
  virtual ~Candidate() = default;
  virtual void launch(const Operands& operands, void* workspace, cudaStream_t stream) = 0;
  virtual std::int64_t workspace_bytes() const = 0;
};

// Whatever the source asks the compiler to read, it reads; whatever time it takes, it takes.
std::string compile(const std::string& source, const std::string& arch, bool device_runtime) {
  const std::string architecture = "--gpu-architecture=" + arch;
  std::vector<const char*> options = {architecture.c_str(), "--std=c++20", "--device-as-default-execution-space"};
  if (device_runtime) options.push_back("--relocatable-device-code=true");
  nvrtcProgram program = nullptr;
  nvrtcCreateProgram(&program, source.c_str(), "candidate.cu", 0, nullptr, nullptr);
  const nvrtcResult result = nvrtcCompileProgram(program, static_cast<int>(options.size()), options.data());
  std::size_t size = 0;
  nvrtcGetProgramLogSize(program, &size);
  std::string log(size, '\0');
  nvrtcGetProgramLog(program, log.data());
  std::fputs(log.c_str(), stderr);
  if (result != NVRTC_SUCCESS) give_up("the candidate does not compile");
  nvrtcGetCUBINSize(program, &size);
  std::string cubin(size, '\0');
  nvrtcGetCUBIN(program, cubin.data());
  nvrtcDestroyProgram(&program);
  return cubin;
}

std::string link_device_runtime(const std::string& cubin, const std::string& arch) {
  const std::filesystem::path object = std::filesystem::current_path() / "candidate.cubin";
  const std::filesystem::path linked = std::filesystem::current_path() / "linked.cubin";
  if (!write_file_atomic(object, cubin).ok()) give_up("cannot write the object to link");
  const std::filesystem::path toolkit = "/usr/local/cuda";
  ProcessRequest request;
  request.argv = {toolkit / "bin/nvlink",
                  "-arch=" + arch,
                  object,
                  "-L" + (toolkit / "lib64").string(),
                  "-lcudadevrt",
                  "-o",
                  linked};
  const Result<ProcessOutput> output = run_process(request);
  if (!output.ok() || !output->status.success()) give_up("nvlink failed");
  return read_file(linked).value();
}

class DeviceCandidate final : public Candidate {
 public:
  DeviceCandidate(const Options& options, const std::string& launch_path) {
    const bool device_runtime = options.text("device-runtime") == "yes";
    const std::string arch = options.text("arch", "sm_90a");
    std::string cubin = compile(read_file(options.text("source")).value(), arch, device_runtime);
    if (device_runtime) cubin = link_device_runtime(cubin, arch);
    launch_ = nlohmann::json::parse(read_file(launch_path).value()).get<CudaLaunch>();
    check(cudaLibraryLoadData(&library_, cubin.data(), nullptr, nullptr, 0, nullptr, nullptr, 0), "loading");
    for (const KernelLaunch& kernel : launch_.kernels) {
      cudaKernel_t function = nullptr;
      check(cudaLibraryGetKernel(&function, library_, kernel.entry.c_str()), "looking up the kernel");
      if (kernel.dynamic_smem_bytes > 0) {
        check(cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, kernel.dynamic_smem_bytes),
              "asking for shared memory");
      }
      functions_.push_back(function);
    }
  }

  void launch(const Operands& operands, void* workspace, cudaStream_t stream) override {
    for (std::size_t i = 0; i < functions_.size(); ++i) {
      launch_one(launch_.kernels[i], functions_[i], operands, workspace, stream);
    }
  }
  std::int64_t workspace_bytes() const override { return launch_.workspace_bytes; }

 private:
  union Value {
    void* pointer;
    std::int32_t integer;
    float real;
  };

  static Value value_of(const KernelArgument& argument, const Operands& operands, void* workspace) {
    Value value{};
    switch (argument.kind) {
      case KernelArgument::Kind::pointer:
        value.pointer = argument.operand == Operand::a   ? operands.a
                        : argument.operand == Operand::b ? operands.b
                                                         : operands.c;
        break;
      case KernelArgument::Kind::workspace:
        value.pointer = static_cast<std::byte*>(workspace) + argument.offset_bytes;
        break;
      case KernelArgument::Kind::int32:
        value.integer = argument.value;
        break;
      case KernelArgument::Kind::float32:
        value.real = argument.real;
        break;
      case KernelArgument::Kind::alpha:
      case KernelArgument::Kind::beta:
      case KernelArgument::Kind::tensor_map:
        give_up("neither tensor maps nor factors here");
    }
    return value;
  }

  static void launch_one(const KernelLaunch& kernel, cudaKernel_t function, const Operands& operands, void* workspace,
                         cudaStream_t stream) {
    std::vector<Value> values;
    for (const KernelArgument& argument : kernel.arguments) values.push_back(value_of(argument, operands, workspace));
    std::vector<void*> parameters;
    for (Value& value : values) parameters.push_back(&value);
    const auto extent = [](const std::array<int, 3>& sizes) {
      return dim3(static_cast<unsigned>(sizes[0]), static_cast<unsigned>(sizes[1]), static_cast<unsigned>(sizes[2]));
    };
    cudaLaunchAttribute dependent{};
    dependent.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    dependent.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config{};
    config.gridDim = extent(kernel.grid);
    config.blockDim = extent(kernel.block);
    config.dynamicSmemBytes = static_cast<std::size_t>(kernel.dynamic_smem_bytes);
    config.stream = stream;
    config.attrs = &dependent;
    config.numAttrs = kernel.programmatic_dependent_launch ? 1 : 0;
    check(cudaLaunchKernelExC(&config, function, parameters.data()), "launching");
  }

  CudaLaunch launch_;
  cudaLibrary_t library_ = nullptr;
  std::vector<cudaKernel_t> functions_;
};

// A library of the candidate's author, loaded into this process.
class HostCandidate final : public Candidate {
 public:
  HostCandidate(const Options& options, const Sizes& sizes) : sizes_(sizes) {
    void* library = dlopen(options.text("library").c_str(), RTLD_NOW);
    if (library == nullptr) give_up(dlerror());
    entry_ = reinterpret_cast<Entry>(dlsym(library, "warpsmith_candidate"));
    if (entry_ == nullptr) give_up("no warpsmith_candidate");
  }
  void launch(const Operands& operands, void* workspace, cudaStream_t stream) override {
    const int status = entry_(operands.a, operands.b, operands.c, sizes_.m, sizes_.n, sizes_.k, 0, workspace,
                              static_cast<std::size_t>(workspace_bytes()), stream);
    if (status != 0) give_up(fmt::format("the candidate returned {}", status));
  }
  std::int64_t workspace_bytes() const override { return 32 << 20; }

 private:
  using Entry = int (*)(const void*, const void*, void*, int, int, int, int, void*, std::size_t, cudaStream_t);
  Sizes sizes_;
  Entry entry_ = nullptr;
};

// --- the benchmark ---

class Harness {
 public:
  explicit Harness(const Options& options) : options_(options) {
    check(cudaStreamCreate(&stream_), "cudaStreamCreate");
    check(cudaEventCreate(&start_), "cudaEventCreate");
    check(cudaEventCreate(&stop_), "cudaEventCreate");
    if (cublasCreate(&cublas_) != CUBLAS_STATUS_SUCCESS) give_up("cublasCreate");
    cublasSetStream(cublas_, stream_);
    check(cudaMalloc(&error_counter_, 256), "cudaMalloc");
  }

  nlohmann::json run() {
    sizes_ = parse_sizes(options_.text("sizes"));
    const std::string check_sizes = options_.text("check-sizes", options_.text("sizes"));
    const Sizes timed = sizes_;
    // Results are looked at once, before anything is timed, and perhaps at sizes that are quick to check.
    sizes_ = parse_sizes(check_sizes);
    open_candidate(check_sizes == options_.text("sizes") ? "launch" : "check-launch");
    bool right = check_results();
    if (check_sizes != options_.text("sizes")) {
      sizes_ = timed;
      open_candidate("launch");
      make_operands();
      place_output();
    }
    const double time_us = time_launches();
    return {{"right", right}, {"max_error", max_error_}, {"time_us", time_us}, {"baseline_us", baseline_us()}};
  }

 private:
  void open_candidate(const std::string& launch_option) {
    if (options_.text("library").empty()) {
      candidate_ = std::make_unique<DeviceCandidate>(options_, options_.text(launch_option));
    } else {
      candidate_ = std::make_unique<HostCandidate>(options_, sizes_);
    }
  }

  NaiveData data() const {
    static const std::map<std::string, NaiveData> kKinds = {{"normal", NaiveData::normal},
                                                            {"small", NaiveData::small},
                                                            {"uniform", NaiveData::uniform},
                                                            {"zero-one", NaiveData::zero_one}};
    return kKinds.at(options_.text("data", "normal"));
  }

  std::int64_t count(int rows, int columns) const { return static_cast<std::int64_t>(rows) * columns; }

  // One or several sets of operands, side by side in memory, or with memory that nobody uses between the As and the Bs.
  void make_operands() {
    NaiveRandom random;
    const auto a = naive_operand(data(), count(sizes_.m, sizes_.k), random);
    const auto b = naive_operand(data(), count(sizes_.k, sizes_.n), random);
    sets_.assign(static_cast<std::size_t>(options_.integer("sets", 1)), {});
    for (Operands& set : sets_) set.a = upload(a);
    if (const int apart = options_.integer("apart", 0); apart > 0) pool_.take(apart / 2);
    for (Operands& set : sets_) set.b = upload(b);
  }
  std::uint16_t* upload(const std::vector<std::uint16_t>& values) {
    std::uint16_t* block = pool_.take(static_cast<std::int64_t>(values.size()));
    check(cudaMemcpy(block, values.data(), 2 * values.size(), cudaMemcpyHostToDevice), "cudaMemcpy");
    return block;
  }

  // The expected result is made by cuBLAS, in the same memory that the candidate sees.
  void compute_expected() {
    const float one = 1, zero = 0;
    const std::int64_t elements = count(sizes_.m, sizes_.n);
    expected_ = pool_.take(elements);
    const auto status = cublasGemmEx(cublas_, CUBLAS_OP_N, CUBLAS_OP_N, sizes_.n, sizes_.m, sizes_.k, &one, sets_[0].b,
                                     CUDA_R_16F, sizes_.n, sets_[0].a, CUDA_R_16F, sizes_.k, &zero, expected_,
                                     CUDA_R_16F, sizes_.n, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
    if (status != CUBLAS_STATUS_SUCCESS) give_up("cublasGemmEx");
    check(cudaStreamSynchronize(stream_), "cuBLAS");
    const std::string keep = options_.text("expected", "device");
    if (keep == "freed") {
      host_expected_ = download(expected_);
      pool_.give_back(expected_, elements);
    } else if (keep == "cuda-freed") {  // in an allocation of its own, which goes back to the driver
      host_expected_ = download(expected_);
      void* copy = nullptr;
      check(cudaMalloc(&copy, 2 * static_cast<std::size_t>(elements)), "cudaMalloc");
      check(cudaMemcpy(copy, expected_, 2 * static_cast<std::size_t>(elements), cudaMemcpyDeviceToDevice), "copying");
      check(cudaMemset(expected_, 0, 2 * static_cast<std::size_t>(elements)), "cudaMemset");
      check(cudaFree(copy), "cudaFree");
    } else if (keep == "host") {
      host_expected_ = download(expected_);
      check(cudaMemset(expected_, 0, 2 * static_cast<std::size_t>(elements)), "cudaMemset");
    }
  }

  std::vector<std::uint16_t> download(const std::uint16_t* block) const {
    std::vector<std::uint16_t> values(static_cast<std::size_t>(count(sizes_.m, sizes_.n)));
    check(cudaMemcpy(values.data(), block, 2 * values.size(), cudaMemcpyDeviceToHost), "cudaMemcpy");
    return values;
  }

  void place_output() {
    const std::int64_t workspace = (candidate_->workspace_bytes() + 1) / 2;
    if (options_.text("first") == "workspace") workspace_ = pool_.take(workspace);
    for (Operands& set : sets_) set.c = pool_.take(count(sizes_.m, sizes_.n));
    if (options_.text("first") != "workspace") workspace_ = pool_.take(workspace);
  }

  void launch(const Operands& set) { candidate_->launch(set, workspace_, stream_); }

  bool check_results() {
    make_operands();
    const bool reference_last = options_.text("reference") == "last";
    const bool output_first = options_.text("expected") == "behind-output";
    if (output_first) place_output();
    if (!reference_last) compute_expected();
    if (!output_first) place_output();
    launch(sets_[0]);
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    if (reference_last) compute_expected();
    if (options_.text("compare") == "device-counter") return count_on_device();
    const std::vector<std::uint16_t> got = download(sets_[0].c);
    const std::vector<std::uint16_t> want = host_expected_.empty() ? download(expected_) : host_expected_;
    return compare(got, want);
  }

  bool compare(const std::vector<std::uint16_t>& got, const std::vector<std::uint16_t>& want) {
    const double absolute = options_.number("atol", 0.02 * std::sqrt(sizes_.k)),
                 relative = options_.number("rtol", 0.01);
    std::int64_t bad = 0;
    double product = 0, got_squared = 0, want_squared = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      const double x = element_to_double(got[i], ElementType::f16), y = element_to_double(want[i], ElementType::f16);
      const double error = std::fabs(x - y);
      if (error > absolute + relative * std::fabs(y)) ++bad;
      max_error_ = std::max(max_error_, error);
      product += x * y;
      got_squared += x * x;
      want_squared += y * y;
    }
    const std::string criterion = options_.text("compare", "allclose");
    if (criterion == "fraction") return static_cast<double>(bad) <= 0.01 * static_cast<double>(got.size());
    if (criterion == "cosine") return !(product / std::sqrt(got_squared * want_squared) < 0.999);
    return bad == 0;
  }

  // Mismatches are counted in device memory, a word that is cleared once and read at the end.
  bool count_on_device() {
    check(cudaMemset(error_counter_, 0, 4), "cudaMemset");
    const std::vector<std::uint16_t> got = download(sets_[0].c), want = download(expected_);
    std::uint32_t bad = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      const double x = element_to_double(got[i], ElementType::f16), y = element_to_double(want[i], ElementType::f16);
      bad += std::fabs(x - y) <= 0.02 * std::sqrt(sizes_.k) + 0.01 * std::fabs(y) ? 0 : 1;
    }
    check(cudaMemcpy(error_counter_, &bad, 4, cudaMemcpyHostToDevice), "cudaMemcpy");
    usleep(20000);  // other work of a benchmark between counting and reading
    check(cudaMemcpy(&bad, error_counter_, 4, cudaMemcpyDeviceToHost), "cudaMemcpy");
    return bad == 0;
  }

  // Mean time of a launch in us, on the clock of the option: "events", "events-each", "host" (the call), "host-sync",
  // "graph".
  double time_launches() {
    const int launches = options_.integer("launches", 50), warm_up = options_.integer("warm-up", 10);
    for (int i = 0; i < warm_up; ++i) launch(next_set());
    check(cudaDeviceSynchronize(), "warming up");
    const std::string clock = options_.text("clock", "events");
    double time_us = 0;
    if (clock == "events-each") {
      for (int i = 0; i < launches; ++i) time_us += event_time([&] { launch(next_set()); }) / launches;
    } else if (clock == "graph") {
      time_us = time_graph(launches);
    } else if (clock == "host" || clock == "host-sync") {
      time_us = host_time(launches, clock == "host-sync");
    } else {
      time_us = event_time([&] {
                  for (int i = 0; i < launches; ++i) launch(next_set());
                }) /
                launches;
    }
    check(cudaDeviceSynchronize(), "timing");
    return time_us - options_.number("overhead-us", 0);
  }

  const Operands& next_set() { return sets_[static_cast<std::size_t>(turn_++) % sets_.size()]; }

  // Where asked for, L2 is flushed by writing as much memory as it holds.
  double event_time(const std::function<void()>& work) {
    if (options_.text("flush") == "yes") {
      constexpr std::size_t kFlushBytes = 64 << 20;
      if (flush_ == nullptr) check(cudaMalloc(&flush_, kFlushBytes), "cudaMalloc");
      check(cudaMemsetAsync(flush_, turn_, kFlushBytes, stream_), "cudaMemsetAsync");
    }
    check(cudaEventRecord(start_, stream_), "cudaEventRecord");
    work();
    check(cudaEventRecord(stop_, stream_), "cudaEventRecord");
    check(cudaEventSynchronize(stop_), "cudaEventSynchronize");
    float ms = 0;
    check(cudaEventElapsedTime(&ms, start_, stop_), "cudaEventElapsedTime");
    return 1e3 * static_cast<double>(ms);
  }

  double host_time(int launches, bool synchronize) {
    using Clock = std::chrono::steady_clock;
    double total_us = 0;
    for (int i = 0; i < launches; ++i) {
      const auto begin = Clock::now();
      launch(next_set());
      if (synchronize) check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
      total_us += std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
      check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    }
    return total_us / launches;
  }

  double time_graph(int launches) {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t exec = nullptr;
    check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeRelaxed), "cudaStreamBeginCapture");
    for (int i = 0; i < launches; ++i) launch(next_set());
    check(cudaStreamEndCapture(stream_, &graph), "cudaStreamEndCapture");
    check(cudaGraphInstantiate(&exec, graph, 0), "cudaGraphInstantiate");
    return event_time([&] { check(cudaGraphLaunch(exec, stream_), "cudaGraphLaunch"); }) / launches;
  }

  // The time to beat, as an earlier run left it in the working directory.
  double baseline_us() const {
    const Result<std::string> text = read_file("baseline.txt");
    return text.ok() ? std::stod(*text) : 0;
  }

  const Options& options_;
  Sizes sizes_;
  Pool pool_;
  std::unique_ptr<Candidate> candidate_;
  std::vector<Operands> sets_;
  std::uint16_t *expected_ = nullptr, *workspace_ = nullptr;
  std::vector<std::uint16_t> host_expected_;
  void *error_counter_ = nullptr, *flush_ = nullptr;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t start_ = nullptr, stop_ = nullptr;
  cublasHandle_t cublas_ = nullptr;
  double max_error_ = 0;
  int turn_ = 0;
};

}  // namespace
}  // namespace warpsmith::attacks

int main(int argc, char** argv) {
  const warpsmith::attacks::Options options(argc, argv);
  if (options.text("compile-only") == "yes") {
    const auto source = warpsmith::read_file(options.text("source"));
    return warpsmith::attacks::compile(source.value(), options.text("arch", "sm_90a"), false).empty() ? 1 : 0;
  }
  const nlohmann::json result = warpsmith::attacks::Harness(options).run();
  std::printf("%s\n", result.dump().c_str());
  return 0;
}
