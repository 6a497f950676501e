// Images of device variables, one after the other at aligned offsets.
#include "evaluate/cuda/module_globals.h"

#include <cxxabi.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "base/text.h"
#include "evaluate/cuda/driver.h"

namespace warpsmith::cuda {

namespace {

constexpr std::size_t kAlign = 16;
constexpr std::uint64_t kLongestPart = 1 << 16;  // bytes: a block copies it
constexpr std::size_t kShownName = 80;

// Buffers of modules that are gone, for the next: taking pages from the driver and giving them back takes as long as a
// small problem's gates. One thread of a process works with a device.
std::vector<DeviceBuffer>& spare_images() {
  static auto& spares = *new std::vector<DeviceBuffer>;
  return spares;
}

DeviceBuffer take_images(std::size_t bytes) {
  auto& spares = spare_images();
  const auto found = std::find_if(spares.begin(), spares.end(), [&](const auto& one) { return one.bytes() >= bytes; });
  if (found == spares.end()) return DeviceBuffer(bytes);
  DeviceBuffer images = std::move(*found);
  spares.erase(found);
  return images;
}

void* pointer(CUdeviceptr address) { return reinterpret_cast<void*>(address); }

// As the author wrote it: a mangled name starts with what NVRTC calls the source.
std::string shown(const CubinVariable& variable) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> demangled(
      abi::__cxa_demangle(variable.name.c_str(), nullptr, nullptr, &status), &std::free);
  std::string name = status == 0 ? demangled.get() : variable.name;
  if (const auto generated = name.rfind("_INTERNAL_"); generated != std::string::npos) {
    const auto end = name.find("::", generated);
    if (end != std::string::npos) name.erase(generated, end + 2 - generated);
  }
  return printable(name, kShownName);
}

}  // namespace

ModuleGlobals::ModuleGlobals(CUmodule module, const CubinFacts& facts) {
  std::vector<CubinVariable> unknown;
  // A piece of its own for each: the driver may place the variables of a section anywhere.
  const auto add = [&](CUdeviceptr base, const CubinVariable& variable, bool apart) {
    pieces_.push_back({variable.section, apart, base, variable.offset, variable.offset + variable.bytes, 0});
  };
  for (const CubinVariable& variable : facts.variables) {
    if (variable.bytes == 0) continue;
    variables_.push_back(variable);
    CUdeviceptr address = 0;
    std::size_t bytes = 0;
    if (driver().module_get_global(&address, &bytes, module, variable.name.c_str()) != CUDA_SUCCESS) {
      unknown.push_back(variable);
      continue;
    }
    add(address - variable.offset, variable, variable.constant);
  }
  // One that the driver does not name is looked for where its section seems to lie; there may be nothing there.
  for (const CubinVariable& variable : unknown) {
    const auto neighbour = std::find_if(pieces_.begin(), pieces_.end(),
                                        [&](const Piece& piece) { return piece.section == variable.section; });
    if (neighbour == pieces_.end()) {
      throw CudaError(fmt::format("the driver gives no address for the device variable {}, so whether it keeps state "
                                  "cannot be checked",
                                  shown(variable)),
                      false);
    }
    add(neighbour->base, variable, true);
  }
  for (Piece& piece : pieces_) {
    piece.image_offset = image_bytes_;
    image_bytes_ += (piece.bytes() + kAlign - 1) / kAlign * kAlign;
  }
  if (!pieces_.empty()) make_image();
}

void ModuleGlobals::make_image() {
  std::vector<ImagePart> parts;
  for (const Piece& piece : pieces_) {
    if (piece.apart) continue;
    for (std::uint64_t done = 0; done < piece.bytes(); done += kLongestPart) {
      parts.push_back({static_cast<std::byte*>(pointer(piece.address() + done)), piece.image_offset + done,
                       std::min<std::uint64_t>(piece.bytes() - done, kLongestPart)});
    }
  }
  parts_ = static_cast<int>(parts.size());
  images_ = take_images(2 * image_bytes_ + parts.size() * sizeof(ImagePart));
  check(cudaMemcpy(this->parts(), parts.data(), parts.size() * sizeof(ImagePart), cudaMemcpyHostToDevice),
        "cudaMemcpy (places of device variables)");
  gather_parts(this->parts(), parts_, loaded_image(), nullptr);
  copy_apart(loaded_image(), nullptr, cudaMemcpyDeviceToDevice);
  // Launches go to another stream.
  check(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");
}

ModuleGlobals::~ModuleGlobals() {
  if (images_.data() != nullptr) spare_images().push_back(std::move(images_));
}

void ModuleGlobals::copy_apart(std::byte* image, cudaStream_t stream, cudaMemcpyKind kind) const {
  for (const Piece& piece : pieces_) {
    if (!piece.apart) continue;
    check(cudaMemcpyAsync(image + piece.image_offset, pointer(piece.address()), piece.bytes(), kind, stream),
          "cudaMemcpyAsync (device variables)");
  }
}

void ModuleGlobals::restore(cudaStream_t stream) const {
  if (pieces_.empty()) return;
  scatter_parts(parts(), parts_, loaded_image(), stream);
  for (const Piece& piece : pieces_) {
    if (!piece.apart) continue;
    check(cudaMemcpyAsync(pointer(piece.address()), loaded_image() + piece.image_offset, piece.bytes(),
                          cudaMemcpyDeviceToDevice, stream),
          "cudaMemcpyAsync (device variables)");
  }
}

std::vector<std::byte> ModuleGlobals::read(cudaStream_t stream) const {
  std::vector<std::byte> image(image_bytes_);
  gather_parts(parts(), parts_, seen_image(), stream);
  check(cudaMemcpyAsync(image.data(), seen_image(), image_bytes_, cudaMemcpyDeviceToHost, stream),
        "cudaMemcpyAsync (device variables)");
  copy_apart(image.data(), stream, cudaMemcpyDeviceToHost);
  check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  return image;
}

void ModuleGlobals::remember_first(cudaStream_t stream) {
  if (first_.empty() && !pieces_.empty()) first_ = read(stream);
}

std::string ModuleGlobals::name_at(const Piece& piece, std::uint64_t offset) const {
  for (const CubinVariable& variable : variables_) {
    if (variable.section != piece.section || offset < variable.offset || offset >= variable.offset + variable.bytes) {
      continue;
    }
    return fmt::format("the device variable {} (byte {} of {})", shown(variable), offset - variable.offset,
                       variable.bytes);
  }
  return "memory between device variables";
}

CheckReport ModuleGlobals::compare(cudaStream_t stream) const {
  CheckReport report{true, {}, 0, 0};
  if (first_.empty()) return report;
  const std::vector<std::byte> now = read(stream);
  for (const Piece& piece : pieces_) {
    const std::byte* before = first_.data() + piece.image_offset;
    const std::byte* after = now.data() + piece.image_offset;
    if (std::memcmp(before, after, piece.bytes()) == 0) continue;
    for (std::size_t i = 0; i < piece.bytes(); ++i) {
      if (before[i] == after[i]) continue;
      if (report.passed) {
        report.detail = fmt::format(
            "{} changed after the first launch: a candidate may keep a table that is the same whatever the operands, "
            "and nothing else",
            name_at(piece, piece.begin + i));
      }
      report.passed = false;
      ++report.bad;
    }
  }
  return report;
}

}  // namespace warpsmith::cuda
