// A shared object with something of everything that the inspection looks for.
#include <pthread.h>
#include <sys/socket.h>
#include <time.h>

namespace {

void* nothing(void*) { return nullptr; }

}  // namespace

extern "C" int warpsmith_candidate() {
  pthread_t thread{};
  pthread_create(&thread, nullptr, nothing, nullptr);
  return socket(AF_INET, SOCK_STREAM, 0);
}

extern "C" int cudaEventElapsedTime(float* ms, void*, void*) {
  *ms = 0;
  return 0;
}
