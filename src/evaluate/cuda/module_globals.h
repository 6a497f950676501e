// The device variables of a loaded module: what a candidate could keep between launches.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "compile/cubin.h"
#include "evaluate/backend.h"
#include "evaluate/cuda/cuda_handles.h"
#include "evaluate/cuda/device_work.h"

namespace warpsmith::cuda {

class ModuleGlobals {
 public:
  ModuleGlobals() = default;
  // Copies the variables as they are after loading. Throws CudaError, also when the driver does not know one of them.
  ModuleGlobals(CUmodule module, const CubinFacts& facts);
  ModuleGlobals(ModuleGlobals&&) = default;
  ModuleGlobals& operator=(ModuleGlobals&&) = default;
  ~ModuleGlobals();

  bool empty() const { return pieces_.empty(); }
  // Queues copies that put every variable back to its image after loading.
  void restore(cudaStream_t stream) const;
  // Takes their present bytes for those after the first launch, if none were taken before. Waits.
  void remember_first(cudaStream_t stream);
  // The same bytes as after the first launch? Waits. Passes when there was no launch.
  CheckReport compare(cudaStream_t stream) const;

 private:
  struct Piece {
    std::size_t section = 0;
    // Copied by the driver: constants, which have a cache of their own, and what may not be there.
    bool apart = false;
    CUdeviceptr base = 0;              // where the section would begin
    std::uint64_t begin = 0, end = 0;  // in the section
    std::size_t image_offset = 0;
    CUdeviceptr address() const { return base + begin; }
    std::size_t bytes() const { return static_cast<std::size_t>(end - begin); }
  };
  void copy_apart(std::byte* image, cudaStream_t stream, cudaMemcpyKind kind) const;
  void make_image();
  std::string name_at(const Piece& piece, std::uint64_t offset) const;
  std::vector<std::byte> read(cudaStream_t stream) const;
  std::byte* loaded_image() const { return images_.as<std::byte>(); }
  std::byte* seen_image() const { return images_.as<std::byte>(image_bytes_); }
  ImagePart* parts() const { return images_.as<ImagePart>(2 * image_bytes_); }

  std::vector<CubinVariable> variables_;
  std::vector<Piece> pieces_;
  // The image after loading, room for one of what is seen later, and the pieces that are not apart: all are copied at
  // once, because every namespace-scope constant of a source is a variable here, and there may be dozens.
  DeviceBuffer images_;
  std::size_t image_bytes_ = 0;
  int parts_ = 0;
  std::vector<std::byte> first_;  // image after the first launch
};

}  // namespace warpsmith::cuda
