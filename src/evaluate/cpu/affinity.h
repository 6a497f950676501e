// Where threads run. Two busy threads that the scheduler puts on one core take twice as long, for milliseconds on end:
// while something is timed, every thread has a core of its own.
#pragma once

namespace warpsmith {

// CPUs that the process was started on; the n-th, for n below their count and cyclic beyond it, is what index n names.
int process_cpu_count();

// Binds the calling thread to one CPU.
void pin_this_thread(int index);

// Binds the calling thread to the first CPU for as long as it lives, then gives it all CPUs back.
class PinnedCaller {
 public:
  PinnedCaller();
  PinnedCaller(const PinnedCaller&) = delete;
  PinnedCaller& operator=(const PinnedCaller&) = delete;
  ~PinnedCaller();
};

// Binds the threads that libraries have started (all of the process but the caller and the `own` thread ids) to the
// second and following CPUs in turn, each library's first thread beside the caller's. Cheap enough to repeat: libraries
// start and end threads as they like. Precondition: the caller is the process's main thread.
void pin_library_threads(const int* own, int own_count);

// The calling thread's kernel id, for `own`.
int this_thread_id();

}  // namespace warpsmith
