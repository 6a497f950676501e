// CUPTI's callback interface, as its headers have it since CUDA 10.
#include "driver_watch.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdint>
#include <cstring>
#include <string_view>

namespace {

constexpr int kDriverDomain = 1;
constexpr int kEnter = 0;

struct CallbackData {
  int site;
  const char* function;
  const void* parameters;
  void* result;
  const char* symbol;
  CUcontext context;
  std::uint32_t context_id;
  std::uint64_t* correlation;
  std::uint32_t correlation_id;
};
using Callback = void (*)(void* user, int domain, unsigned id, const void* data);
using Subscribe = int (*)(void** subscriber, Callback callback, void* user);
using EnableDomain = int (*)(std::uint32_t enable, void* subscriber, int domain);

// Parameters of the launching calls, laid out as in the driver's prototypes.
struct LaunchParameters {
  CUfunction function;
  unsigned grid[3], block[3], shared_bytes;
  CUstream stream;
};
struct LaunchExParameters {
  const CUlaunchConfig* config;
};
struct SetLimitParameters {
  CUlimit limit;
  std::size_t value;
};
struct StreamAttributeParameters {
  CUstream stream;
  CUlaunchAttributeID attribute;
  const CUlaunchAttributeValue* value;
};

// "cuMemAlloc_v2_ptsz" -> "cuMemAlloc"
std::string plain_name(std::string_view name) {
  for (const std::string_view suffix : {"_ptsz", "_ptds", "_v2", "_v3", "_v4"}) {
    if (name.ends_with(suffix)) name.remove_suffix(suffix.size());
  }
  return std::string(name);
}

bool is_persisting(CUlaunchAttributeID attribute, const CUlaunchAttributeValue& value) {
  return attribute == CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW &&
         value.accessPolicyWindow.hitProp == CU_ACCESS_PROPERTY_PERSISTING;
}

// Programmatic dependent launch: the kernel may start while the stream's last one still runs.
bool starts_early(const CUlaunchConfig& config) {
  for (unsigned i = 0; i < config.numAttrs; ++i) {
    const CUlaunchAttribute& attribute = config.attrs[i];
    if (attribute.id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION &&
        attribute.value.programmaticStreamSerializationAllowed != 0) {
      return true;
    }
  }
  return false;
}

}  // namespace

std::string DriverWatch::open(const std::vector<std::string>& libraries) {
  void* library = nullptr;
  for (const std::string& path : libraries) {
    if ((library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) != nullptr) break;
  }
  if (library == nullptr) return "no libcupti found";
  const auto subscribe = reinterpret_cast<Subscribe>(dlsym(library, "cuptiSubscribe"));
  const auto enable = reinterpret_cast<EnableDomain>(dlsym(library, "cuptiEnableDomain"));
  if (subscribe == nullptr || enable == nullptr) return "this libcupti has no callbacks";
  void* subscriber = nullptr;
  if (const int error = subscribe(&subscriber, on_callback, this); error != 0) {
    return fmt::format("CUPTI error {} in cuptiSubscribe", error);
  }
  if (const int error = enable(1, subscriber, kDriverDomain); error != 0) {
    return fmt::format("CUPTI error {} in cuptiEnableDomain", error);
  }
  open_ = true;
  return {};
}

void DriverWatch::enter_call(CUstream stream) {
  const std::lock_guard lock(mutex_);
  in_call_ = true;
  given_ = stream;
  caller_ = std::this_thread::get_id();
  launches_in_call_ = 0;
}

void DriverWatch::leave_call() {
  const std::lock_guard lock(mutex_);
  in_call_ = false;
  ++facts_.calls;
  if (open_) facts_.launches_by_call.push_back(launches_in_call_);
}

warpsmith::audit::CallFacts DriverWatch::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(facts_, {});
}

void DriverWatch::on_callback(void* self, int domain, unsigned, const void* data) {
  const auto* call = static_cast<const CallbackData*>(data);
  if (domain != kDriverDomain || call->site != kEnter || call->function == nullptr) return;
  static_cast<DriverWatch*>(self)->on_driver_call(call->function, call->parameters, call->symbol);
}

// Calls that this program makes between the candidate's are its own: only launches by other threads count then.
void DriverWatch::on_driver_call(const char* name, const void* parameters, const char* kernel) {
  const std::lock_guard lock(mutex_);
  const std::string plain = plain_name(name);
  const bool launches = plain.starts_with("cuLaunchKernel") || plain == "cuLaunchCooperativeKernel";
  const bool by_caller = std::this_thread::get_id() == caller_;
  if (!in_call_ || !by_caller) {
    if (launches && !by_caller && caller_ != std::thread::id()) ++facts_.launches_outside_calls;
    return;
  }
  ++facts_.driver_calls[plain];
  if (parameters == nullptr) return;
  if (plain == "cuLaunchKernelEx") {
    const CUlaunchConfig* config = static_cast<const LaunchExParameters*>(parameters)->config;
    if (launches_in_call_ == 0 && config->hStream == given_ && starts_early(*config)) ++facts_.early_launches;
    count_launch(kernel, config->hStream);
    for (unsigned i = 0; i < config->numAttrs; ++i) {
      if (is_persisting(config->attrs[i].id, config->attrs[i].value)) ++facts_.persisting_windows;
    }
  } else if (launches) {
    count_launch(kernel, static_cast<const LaunchParameters*>(parameters)->stream);
  } else if (plain == "cuCtxSetLimit") {
    facts_.limits_set.push_back(static_cast<const SetLimitParameters*>(parameters)->limit);
  } else if (plain == "cuStreamSetAttribute" || plain == "cuGraphKernelNodeSetAttribute") {
    const auto* set = static_cast<const StreamAttributeParameters*>(parameters);
    if (set->value != nullptr && is_persisting(set->attribute, *set->value)) ++facts_.persisting_windows;
  }
}

void DriverWatch::count_launch(const char* kernel, CUstream stream) {
  ++launches_in_call_;
  if (kernel != nullptr) ++facts_.kernels[kernel];
  if (stream == given_) {
    ++facts_.launches_on_given_stream;
  } else if (stream == nullptr || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD) {
    ++facts_.launches_on_default_stream;
  } else {
    ++facts_.launches_on_other_streams;
  }
}
