// Sees every call to the CUDA driver, and every kernel's name, through CUPTI's callbacks. CUPTI is opened at run time;
// the few types of it that are needed are declared here, so that nothing depends on its headers.
#pragma once

#include <cuda.h>

#include <atomic>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "audit/findings.h"

// One per process, made before CUDA starts.
class DriverWatch {
 public:
  // Empty: it watches. Else why it cannot; `libraries` are tried in turn.
  std::string open(const std::vector<std::string>& libraries);

  // Between the two, this thread is inside the candidate's entry, working on `stream`.
  void enter_call(CUstream stream);
  void leave_call();

  // What was seen since the last take.
  warpsmith::audit::CallFacts take();

 private:
  static void on_callback(void* self, int domain, unsigned callback, const void* data);
  void on_driver_call(const char* name, const void* parameters, const char* kernel);
  void count_launch(const char* kernel, CUstream stream);

  std::mutex mutex_;
  std::atomic<bool> open_{false};
  bool in_call_ = false;
  CUstream given_ = nullptr;
  std::thread::id caller_;
  int launches_in_call_ = 0;
  warpsmith::audit::CallFacts facts_;
};
