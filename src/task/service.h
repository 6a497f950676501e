// The worker's side of an evaluation: every setting proved, one timed; and the request that asks for it.
#pragma once

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "evaluate/task_judge.h"
#include "task/reference.h"
#include "task/task.h"
#include "task/task_device.h"

namespace warpsmith::task {

// A candidate compiled for one setting.
struct CompiledSetting {
  int setting = 0;
  std::string binary;
  nlohmann::json launch;
  std::int64_t workspace_bytes = 0;
  bool zero_workspace = false;
};

struct EvaluationRequest {
  std::string directory, identity;          // of the task; an edit since is noticed
  std::string reference;                    // its compiled C++ reference; empty: it is CUDA code
  std::vector<CompiledSetting> references;  // then, of every setting
  std::vector<CompiledSetting> settings;    // the last one is timed
  bool order_nondeterministic = false;
  std::string nondeterminism_reason;
  bool confined = true;  // candidates for the CPU
};
void to_json(nlohmann::json& json, const EvaluationRequest& request);
void from_json(const nlohmann::json& json, EvaluationRequest& request);

// Makes what differs between devices.
class DeviceFactory {
 public:
  virtual ~DeviceFactory() = default;
  virtual Result<std::unique_ptr<TaskDevice>> device(const EvaluationRequest& request) = 0;
  virtual Result<std::unique_ptr<Reference>> reference(const Task& task, const EvaluationRequest& request) = 0;
};

// The reference that the request names, where it is C++.
Result<std::unique_ptr<Reference>> open_cpp_reference(const Task& task, const EvaluationRequest& request);

// C++ candidates and references; `machine`: as the worker's backend describes it.
std::unique_ptr<DeviceFactory> make_cpu_factory(const Machine& machine);

std::unique_ptr<TaskService> make_task_service(std::unique_ptr<DeviceFactory> factory);

}  // namespace warpsmith::task
