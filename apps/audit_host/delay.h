// Keeps a stream busy.
#pragma once

#include <cuda_runtime_api.h>

void queue_delay(double microseconds, cudaStream_t stream);
