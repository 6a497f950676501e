// warpsmith-audit-host: the process that runs a foreign kernel, under warpsmith-sandbox. It opens the judge's device
// memory, calls the kernel when told, and says so. It holds nothing worth forging: operands, references, clocks that
// count and the verdict are the judge's. docs/audit.md describes the commands.
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "audit/cuda/shared_memory.h"
#include "audit/sandbox.h"
#include "base/subprocess.h"
#include "candidate.h"
#include "delay.h"
#include "driver_watch.h"

namespace {

using nlohmann::json;
using namespace warpsmith;

constexpr int kMemoryDescriptor = ChildProcess::kChannelFd + 1;

void check(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return;
  cudaGetLastError();
  throw std::runtime_error(fmt::format("{} ({}) in {}", cudaGetErrorName(status), cudaGetErrorString(status), call));
}

double now_us() {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

const char* name_of(cudaGraphNodeType type) {
  switch (type) {
    case cudaGraphNodeTypeKernel:
      return "kernel";
    case cudaGraphNodeTypeMemcpy:
      return "memcpy";
    case cudaGraphNodeTypeMemset:
      return "memset";
    case cudaGraphNodeTypeHost:
      return "host";
    default:
      return "other";
  }
}

json count_nodes(cudaGraph_t graph) {
  std::size_t count = 0;
  check(cudaGraphGetNodes(graph, nullptr, &count), "cudaGraphGetNodes");
  std::vector<cudaGraphNode_t> nodes(count);
  if (count > 0) check(cudaGraphGetNodes(graph, nodes.data(), &count), "cudaGraphGetNodes");
  std::map<std::string, int> counts;
  for (cudaGraphNode_t node : nodes) {
    cudaGraphNodeType type{};
    check(cudaGraphNodeGetType(node, &type), "cudaGraphNodeGetType");
    ++counts[name_of(type)];
  }
  return counts;
}

class Host {
 public:
  // Answers commands until the judge goes away.
  int serve() {
    std::string line;
    while (channel_.receive(line)) {
      const json command = json::parse(line);
      json reply = answer(command);
      reply["id"] = command.at("id");
      if (!channel_.send(reply.dump(-1, ' ', false, json::error_handler_t::replace))) break;
    }
    return 0;
  }

 private:
  json answer(const json& command) {
    try {
      return commands_.at(command.at("op").get<std::string>())(command);
    } catch (const std::exception& error) {
      return {{"error", error.what()}};
    }
  }

  // CUDA, the shared memory, and a little of everything, so that what CUDA makes for itself (threads above all) is
  // there before the foreign code is.
  json start(const json& command) {
    if (const auto libraries = command.at("watch").get<std::vector<std::string>>(); !libraries.empty()) {
      watch_error_ = watch_.open(libraries);
      watching_ = watch_error_.empty();
    }
    const int device = command.at("device").get<int>();
    check(cudaSetDevice(device), "cudaSetDevice");
    check(cudaFree(nullptr), "starting the device");
    memory_ = static_cast<char*>(
        audit::open_shared_memory(command.at("memory").get<audit::MemoryTicket>(), kMemoryDescriptor, device));
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    for (cudaEvent_t* event : {&start_, &stop_}) check(cudaEventCreate(event), "cudaEventCreate");
    warm_up();
    return {{"watch_error", watch_error_}};
  }

  void warm_up() {
    void* scratch = nullptr;
    check(cudaMalloc(&scratch, 1 << 20), "cudaMalloc");
    for (int i = 0; i < 2; ++i) {
      check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
      check(cudaMemsetAsync(scratch, 0, 1 << 20, stream_), "cudaMemsetAsync");
      queue_delay(1, stream_);
      cudaGraph_t graph = nullptr;
      check(cudaStreamEndCapture(stream_, &graph), "cudaStreamEndCapture");
      cudaGraphExec_t exec = nullptr;
      check(cudaGraphInstantiate(&exec, graph, 0), "cudaGraphInstantiate");
      check(cudaGraphLaunch(exec, stream_), "cudaGraphLaunch");
      timed([&] { queue_delay(1, stream_); });
      cudaGraphExecDestroy(exec);
      cudaGraphDestroy(graph);
    }
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    check(cudaFree(scratch), "cudaFree");
  }

  json lock(const json& command) {
    audit::Confinement confinement;
    if (const auto late = command.find("late"); late != command.end()) {
      audit::SandboxPolicy policy;
      late->at("scratch").get_to(policy.scratch);
      late->at("readable").get_to(policy.readable);
      confinement.merge(audit::give_up_rights(policy));
    }
    if (command.at("filter").get<bool>()) confinement.merge(audit::filter_system_calls(false));
    audit::limit_further_memory(command.at("memory_bytes").get<std::uint64_t>());
    return {{"active", confinement.active}, {"missing", confinement.missing}};
  }

  json load(const json& command) {
    candidate_.load(command.at("object").get<std::string>());
    return {{"nondeterminism", candidate_.nondeterminism()}};
  }

  json register_table(const json& command) {
    CallTable table;
    command.at("m").get_to(table.m);
    command.at("n").get_to(table.n);
    command.at("k").get_to(table.k);
    command.at("b_is_col_major").get_to(table.b_is_col_major);
    command.at("workspace").get_to(table.workspace);
    command.at("workspace_bytes").get_to(table.workspace_bytes);
    for (const json& set : command.at("sets")) {
      table.sets.push_back(
          {set.at(0).get<std::uint64_t>(), set.at(1).get<std::uint64_t>(), set.at(2).get<std::uint64_t>()});
    }
    tables_[command.at("table").get<std::string>()] = std::move(table);
    return json::object();
  }

  // Calls `first`, `first` + 1, ... of a table, round and round. Stops at the first that is refused.
  int call_all(const json& command) {
    const CallTable& table = tables_.at(command.at("table").get<std::string>());
    const auto first = command.at("first").get<std::size_t>();
    const auto count = command.at("count").get<std::size_t>();
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t set = (first + i) % table.sets.size();
      if (watching_) watch_.enter_call(stream_);
      const int code = call_candidate(candidate_.entry(), memory_, table, set, stream_);
      if (watching_) watch_.leave_call();
      if (code != 0) return code;
    }
    return 0;
  }

  // Runs `queue` between two events and waits: for the stream, then for the whole device.
  json timed(const std::function<void()>& queue) {
    check(cudaEventRecord(start_, stream_), "cudaEventRecord");
    const double begin = now_us();
    queue();
    check(cudaEventRecord(stop_, stream_), "cudaEventRecord");
    check(cudaStreamSynchronize(stream_), "running the candidate");
    const double end = now_us();
    check(cudaDeviceSynchronize(), "running the candidate");
    const double settled = now_us();
    float device_ms = 0;
    check(cudaEventElapsedTime(&device_ms, start_, stop_), "cudaEventElapsedTime");
    return {
        {"device_us", 1e3 * static_cast<double>(device_ms)}, {"host_us", end - begin}, {"settle_us", settled - end}};
  }

  json run(const json& command) {
    int code = 0;
    json reply = timed([&] { code = call_all(command); });
    reply["code"] = code;
    return reply;
  }

  // Copies within the shared memory, on the stream.
  void queue_copies(const json& copies) {
    for (const json& copy : copies) {
      check(cudaMemcpyAsync(memory_ + copy.at(0).get<std::uint64_t>(), memory_ + copy.at(1).get<std::uint64_t>(),
                            copy.at(2).get<std::uint64_t>(), cudaMemcpyDeviceToDevice, stream_),
            "cudaMemcpyAsync");
    }
  }

  // The stream is busy; then inputs arrive, the call works on them, and its result is carried away, all in the stream's
  // order. Who works on another stream reads inputs too early or writes the result too late.
  json run_ordered(const json& command) {
    queue_delay(command.at("delay_us").get<double>(), stream_);
    queue_copies(command.at("before"));
    const int code = call_all(command);
    queue_copies(command.at("after"));
    check(cudaStreamSynchronize(stream_), "running the candidate");
    return {{"code", code}};
  }

  json capture(const json& command) {
    check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
    int code = 0;
    std::string thrown;
    try {
      code = call_all(command);
    } catch (const std::exception& error) {
      thrown = error.what();
    }
    cudaGraph_t graph = nullptr;
    const cudaError_t ended = cudaStreamEndCapture(stream_, &graph);
    if (!thrown.empty()) throw std::runtime_error(thrown);
    check(ended, "cudaStreamEndCapture");
    if (code != 0) {
      cudaGraphDestroy(graph);
      cudaGetLastError();
      return {{"code", code}};
    }
    const json nodes = count_nodes(graph);
    cudaGraphExec_t exec = nullptr;
    const cudaError_t instantiated = cudaGraphInstantiate(&exec, graph, 0);
    cudaGraphDestroy(graph);
    check(instantiated, "cudaGraphInstantiate");
    check(cudaGraphUpload(exec, stream_), "cudaGraphUpload");
    check(cudaDeviceSynchronize(), "capturing");
    graphs_[command.at("graph").get<std::string>()] = exec;
    return {{"code", 0}, {"nodes", nodes}};
  }

  json replay(const json& command) {
    cudaGraphExec_t exec = graphs_.at(command.at("graph").get<std::string>());
    json reply = timed([&] { check(cudaGraphLaunch(exec, stream_), "cudaGraphLaunch"); });
    reply["code"] = 0;
    return reply;
  }

  json observe(const json&) {
    const audit::CallFacts facts = watch_.take();
    return {{"facts",
             {{"calls", facts.calls},
              {"driver_calls", facts.driver_calls},
              {"kernels", facts.kernels},
              {"launches_on_given_stream", facts.launches_on_given_stream},
              {"launches_on_default_stream", facts.launches_on_default_stream},
              {"launches_on_other_streams", facts.launches_on_other_streams},
              {"launches_by_call", facts.launches_by_call},
              {"limits_set", facts.limits_set},
              {"persisting_windows", facts.persisting_windows},
              {"early_launches", facts.early_launches},
              {"launches_outside_calls", facts.launches_outside_calls}}}};
  }

  using Command = std::function<json(const json&)>;
  const std::map<std::string, Command> commands_ = {
      {"start", [this](const json& command) { return start(command); }},
      {"lock", [this](const json& command) { return lock(command); }},
      {"load", [this](const json& command) { return load(command); }},
      {"table", [this](const json& command) { return register_table(command); }},
      {"run", [this](const json& command) { return run(command); }},
      {"ordered", [this](const json& command) { return run_ordered(command); }},
      {"capture", [this](const json& command) { return capture(command); }},
      {"replay", [this](const json& command) { return replay(command); }},
      {"observe", [this](const json& command) { return observe(command); }},
  };

  ParentChannel channel_;
  DriverWatch watch_;
  bool watching_ = false;
  std::string watch_error_;
  char* memory_ = nullptr;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t start_ = nullptr, stop_ = nullptr;
  Candidate candidate_;
  std::map<std::string, CallTable> tables_;
  std::map<std::string, cudaGraphExec_t> graphs_;
};

}  // namespace

int main() {
  Host host;
  return host.serve();
}
