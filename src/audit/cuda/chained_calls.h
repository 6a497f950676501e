// Two calls in a row, of which the second reads what the first writes: queued at once they must give what they give
// with a synchronisation between them. A kernel that does not wait for its predecessor on the stream (programmatic
// dependent launch without griddepcontrol.wait) reads memory that was not written yet. Throws cuda::CudaError.
#pragma once

#include <string>

#include "audit/cuda/host_session.h"
#include "audit/cuda/shared_operands.h"

namespace warpsmith::audit {

struct ChainReport {
  std::string fault;      // the host did not answer, or the entry returned something else than 0
  std::string violation;  // what was seen, with numbers; empty: nothing
};

// order_varies: sums are declared to vary; then only values that the first call had not written yet count.
ChainReport check_chained_calls(HostSession& host, SharedOperands& operands, cudaStream_t stream,
                                const Problem& problem, bool order_varies);

}  // namespace warpsmith::audit
