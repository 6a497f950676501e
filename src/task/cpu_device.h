// The CPU as a device of tasks.
#pragma once

#include <memory>

#include "problem/machine.h"
#include "task/foreign_host.h"
#include "task/task_device.h"

namespace warpsmith::task {

std::unique_ptr<TaskDevice> make_cpu_task_device(const Machine& machine, ForeignHost::Options options);

}  // namespace warpsmith::task
