// The safetensors format.
#include "policy/embedded/tensor_file.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/text.h"

namespace warpsmith::embedded {

namespace {

static_assert(std::endian::native == std::endian::little, "tensors are stored little-endian");

// IEEE half precision, by its bits.
float from_half(std::uint16_t half) {
  const std::uint32_t sign = std::uint32_t{half & 0x8000u} << 16;
  const std::uint32_t exponent = (half >> 10) & 0x1fu, mantissa = half & 0x3ffu;
  if (exponent == 0) {  // zero and subnormals: mantissa * 2^-24
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return sign != 0 ? -magnitude : magnitude;
  }
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

// Round to nearest, ties to even.
std::uint16_t to_half(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<std::uint16_t>(sign | 0x7e00u);
  if (magnitude >= 0x477ff000u) return static_cast<std::uint16_t>(sign | 0x7c00u);  // 65520 and more
  if (magnitude < 0x38800000u) {                                                    // below 2^-14: a multiple of 2^-24
    const float scaled = std::bit_cast<float>(magnitude) * 0x1p24f;
    const float rounded = (scaled + 0x1p23f) - 0x1p23f;
    return static_cast<std::uint16_t>(sign | static_cast<std::uint32_t>(rounded));
  }
  const std::uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return static_cast<std::uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
}

Result<Tensor> read_tensor(const nlohmann::json& entry, std::string_view data) {
  const auto type = entry.at("dtype").get<std::string>();
  if (type != "F32" && type != "F16") return bad_input(fmt::format("type {} is not F32 or F16", printable(type)));
  const std::size_t width = type == "F32" ? 4 : 2;
  Tensor tensor;
  std::size_t count = 1;
  for (const auto& extent : entry.at("shape")) {
    const auto size = extent.get<std::int64_t>();
    if (size < 0 || (size > 0 && count > data.size() / static_cast<std::size_t>(size)))
      return bad_input("its shape is larger than the file");
    tensor.shape.push_back(size);
    count *= static_cast<std::size_t>(size);
  }
  const auto begin = entry.at("data_offsets").at(0).get<std::uint64_t>();
  const auto end = entry.at("data_offsets").at(1).get<std::uint64_t>();
  if (begin > end || end > data.size() || end - begin != count * width) {
    return bad_input("its bytes are not where the header says");
  }
  tensor.values.resize(count);
  const char* bytes = data.data() + begin;
  if (type == "F32") {
    if (count > 0) std::memcpy(tensor.values.data(), bytes, count * width);
    return tensor;
  }
  for (std::size_t i = 0; i < count; ++i) {
    std::uint16_t half = 0;
    std::memcpy(&half, bytes + 2 * i, 2);
    tensor.values[i] = from_half(half);
  }
  return tensor;
}

}  // namespace

Result<TensorFile> load_tensors(const std::filesystem::path& path) {
  const auto bytes = read_file(path);
  if (!bytes) return bytes.error();
  const auto broken = [&](const std::string& why) {
    return bad_input(fmt::format("{} is not a whole safetensors file: {}", path.string(), printable(why, 200)));
  };
  std::uint64_t length = 0;
  if (bytes->size() < sizeof length) return broken("it is too short");
  std::memcpy(&length, bytes->data(), sizeof length);
  if (length > bytes->size() - sizeof length) return broken("its header is cut off");
  const std::string_view all(*bytes);
  const std::string_view header = all.substr(sizeof length, length), data = all.substr(sizeof length + length);
  try {
    const auto json = nlohmann::json::parse(header);
    if (!json.is_object()) return broken("its header is no object");
    TensorFile file;
    for (const auto& [name, entry] : json.items()) {
      if (name == "__metadata__") {
        file.metadata = entry.get<std::map<std::string, std::string>>();
        continue;
      }
      auto tensor = read_tensor(entry, data);
      if (!tensor) return broken(fmt::format("{}: {}", name, tensor.error().message));
      file.tensors.emplace(name, std::move(*tensor));
    }
    return file;
  } catch (const nlohmann::json::exception& error) {
    return broken(error.what());
  }
}

Status save_tensors(const std::filesystem::path& path, const TensorFile& file, TensorFormat format) {
  nlohmann::json header = nlohmann::json::object();
  if (!file.metadata.empty()) header["__metadata__"] = file.metadata;
  std::string data;
  for (const auto& [name, tensor] : file.tensors) {
    const std::size_t begin = data.size();
    if (format == TensorFormat::f32) {
      if (!tensor.values.empty())
        data.append(reinterpret_cast<const char*>(tensor.values.data()), 4 * tensor.values.size());
    } else {
      for (const float value : tensor.values) {
        const std::uint16_t half = to_half(value);
        data.push_back(static_cast<char>(half & 0xff));
        data.push_back(static_cast<char>(half >> 8));
      }
    }
    header[name] = {{"dtype", format == TensorFormat::f32 ? "F32" : "F16"},
                    {"shape", tensor.shape},
                    {"data_offsets", {begin, data.size()}}};
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  const std::uint64_t length = text.size();
  std::string bytes(reinterpret_cast<const char*>(&length), sizeof length);
  bytes += text;
  bytes += data;
  return write_file_atomic(path, bytes);
}

}  // namespace warpsmith::embedded
