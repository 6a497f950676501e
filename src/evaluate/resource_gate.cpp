// The criterion on the compiler's report.
#include "evaluate/resource_gate.h"

#include <fmt/format.h>

namespace warpsmith {

GateResult resource_gate(const ResourceReport& report) {
  GateResult gate{"resource", report.clean(), {}, 0};
  if (report.wgmma_serialized) gate.detail = "the compiler serialised wgmma";
  if (report.spill_store_bytes > 0 || report.spill_load_bytes > 0) {
    gate.detail += fmt::format("{}spills: {} bytes stored, {} bytes loaded", gate.detail.empty() ? "" : "; ",
                               report.spill_store_bytes, report.spill_load_bytes);
  }
  return gate;
}

}  // namespace warpsmith
