// Emulated barriers of a block and of a cluster; a remote address holds its rank, plus one, above
// bit 24.
#pragma once

#include "device/ptx/types.cuh"

namespace warpsmith::device {

inline void named_barrier_sync(int id, int threads) {
  emulation::arrive_and_wait(emulation::current().block->barriers[static_cast<std::size_t>(id)], threads);
}
inline u32 cluster_rank() { return static_cast<u32>(emulation::current().block->rank); }
inline void cluster_arrive_relaxed() {
  emulation::Cluster& cluster = *emulation::current().block->cluster;
  emulation::current().cluster_generation = cluster.barrier.generation;
  emulation::arrive(cluster.barrier, cluster.threads);
}
inline void cluster_wait() {
  emulation::wait(emulation::current().block->cluster->barrier, emulation::current().cluster_generation);
}
inline void cluster_sync() {
  cluster_arrive_relaxed();
  cluster_wait();
}
inline u32 map_to_rank(u32 address, u32 rank) { return address | (rank + 1) << 24; }

}  // namespace warpsmith::device
