// A kernel that keeps a stream busy for a while, so that work on it which does not wait for the stream shows.
#include "delay.h"

namespace {

__global__ void delay_kernel(unsigned long long nanoseconds) {
  unsigned long long start = 0, now = 0;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(start));
  do {
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  } while (now - start < nanoseconds);
}

}  // namespace

void queue_delay(double microseconds, cudaStream_t stream) {
  delay_kernel<<<1, 1, 0, stream>>>(static_cast<unsigned long long>(microseconds * 1e3));
}
