// From the device options to a running evaluator.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cli.h"
#include "evaluate/evaluator.h"
#include "report/provenance.h"

namespace warpsmith::cli {

struct OpenDevice {
  Target target = Target::cpu;
  int threads = 1;  // 1 on CUDA targets
  std::unique_ptr<Evaluator> evaluator;
  std::string note;  // why `auto` chose this device, one line
};

// CPUs that this process may run on.
int available_threads();

// Resolves `auto`, checks the rest and starts the worker. Error: bad_input or environment.
Result<OpenDevice> open_device(const DeviceOptions& options, std::uint64_t seed);

// One worker a device, all of one type. gpus: "all", numbers such as "0,1", or empty for options.device alone.
Result<std::vector<OpenDevice>> open_devices(const DeviceOptions& options, const std::string& gpus, std::uint64_t seed);

// Device, versions, commit; `mode` and `seed` as the options say. Date and clocks are left to the caller.
Provenance provenance_of(const OpenDevice& device, const std::map<std::string, std::string>& compilers,
                         const std::string& mode, std::uint64_t seed);

}  // namespace warpsmith::cli
