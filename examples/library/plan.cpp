// A plan from C++: the kernel is chosen and loaded once, then launched many times, here inside a CUDA graph. Prints
// what was chosen and why.
//   c++ plan.cpp $(pkg-config --cflags --libs warpsmith) -I/usr/local/cuda/include -L/usr/local/cuda/lib64 -lcudart -o
//   plan
#include <cuda_runtime_api.h>

#include <cstdio>
#include <stdexcept>
#include <warpsmith/hgemm.hpp>

namespace {

void check(cudaError_t status) {
  if (status != cudaSuccess) throw std::runtime_error(cudaGetErrorString(status));
}

void run() {
  const warpsmith::Handle handle;
  warpsmith_problem_t problem{};  // all-zero: FP16, FP32 sums, no transposes, packed
  problem.m = 512;
  problem.n = 1024;
  problem.k = 4096;
  problem.op_b = WARPSMITH_OP_T;
  std::printf("%s\n", handle.explain(problem).c_str());

  void *a = nullptr, *b = nullptr, *c = nullptr;
  check(cudaMalloc(&a, 2 * problem.m * problem.k));
  check(cudaMalloc(&b, 2 * problem.n * problem.k));
  check(cudaMalloc(&c, 2 * problem.m * problem.n));
  check(cudaMemset(a, 0, 2 * problem.m * problem.k));
  check(cudaMemset(b, 0, 2 * problem.n * problem.k));

  const warpsmith::Plan plan(handle, problem);
  cudaStream_t stream = nullptr;
  check(cudaStreamCreate(&stream));
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  for (int i = 0; i < 100; ++i) plan.run(a, b, c, stream);
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  check(cudaStreamEndCapture(stream, &graph));
  check(cudaGraphInstantiate(&executable, graph, 0));

  cudaEvent_t start = nullptr, stop = nullptr;
  check(cudaEventCreate(&start));
  check(cudaEventCreate(&stop));
  check(cudaGraphLaunch(executable, stream));
  check(cudaEventRecord(start, stream));
  check(cudaGraphLaunch(executable, stream));
  check(cudaEventRecord(stop, stream));
  check(cudaStreamSynchronize(stream));
  float ms = 0;
  check(cudaEventElapsedTime(&ms, start, stop));
  std::printf("%.2f us per launch\n", 1000.0 * ms / 100);

  for (void* memory : {a, b, c}) cudaFree(memory);
  cudaGraphExecDestroy(executable);
  cudaGraphDestroy(graph);
  cudaStreamDestroy(stream);
}

}  // namespace

int main() {
  try {
    run();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "plan: %s\n", error.what());
    return 3;
  }
}
