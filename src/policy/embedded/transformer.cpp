// Layout of the weights, their start, inference, model files.
#include "policy/embedded/transformer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/hash.h"
#include "base/text.h"
#include "policy/rng.h"

namespace warpsmith::embedded {

namespace {

constexpr float kEpsilon = 1e-5f;
constexpr double kSpread = 0.05;  // standard deviation of starting embeddings

// Positions in parameters_of().
constexpr std::size_t kEmbedding = 0, kSegment = 1, kFirstLayer = 2, kPerLayer = 6;
enum LayerPart : std::size_t { kNorm1, kQkv, kOut, kNorm2, kUp, kDown };

double normal(Rng& rng) {  // Box and Muller
  const double u = 1.0 - rng.unit();
  return std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * rng.unit());
}

// A random vector that a name always has, and random waves along a value, so that near values look alike.
class SmoothVectors {
 public:
  SmoothVectors(const std::string& name, std::uint64_t seed, std::size_t width)
      : base_(width), frequency_(width), phase_(width) {
    Rng rng(seed ^ hash64(name));
    for (std::size_t i = 0; i < width; ++i) {
      base_[i] = normal(rng);
      frequency_[i] = normal(rng);
      phase_[i] = 2.0 * std::numbers::pi * rng.unit();
    }
  }

  void write(double value, float* out) const {
    for (std::size_t i = 0; i < base_.size(); ++i) {
      const double wave = std::numbers::sqrt2 * std::cos(frequency_[i] * value + phase_[i]);
      out[i] = static_cast<float>(kSpread * std::numbers::sqrt2 / 2 * (base_[i] + wave));
    }
  }

 private:
  std::vector<double> base_, frequency_, phase_;
};

// The name that a token shares with its like, and where it lies along them, in units in which neighbours are about a
// half apart.
std::pair<std::string, double> place(const Vocabulary& vocabulary, int id) {
  const Token& token = vocabulary.token(id);
  switch (token.kind) {
    case Token::Kind::feature:
      return {"feature " + Vocabulary::feature_slots()[static_cast<std::size_t>(token.group)].name, token.value / 3.0};
    case Token::Kind::speedup:
      return {"speedup", token.value / 3.0};
    case Token::Kind::value: {
      const Family& family = *vocabulary.families()[static_cast<std::size_t>(token.group)];
      const KnobField& field = *family.fields()[static_cast<std::size_t>(token.field)];
      const int value = field.values[static_cast<std::size_t>(token.value)];
      const bool number = field.words.empty() && value >= 0;
      return {"value " + field.name, number ? std::log2(1.0 + value) : 1.5 * token.value};
    }
    case Token::Kind::field: {
      const Family& family = *vocabulary.families()[static_cast<std::size_t>(token.group)];
      return {"field " + family.fields()[static_cast<std::size_t>(token.field)]->name, 0};
    }
    default:
      return {vocabulary.name(id), 0};
  }
}

void rms_norm(const float* x, const float* gain, std::size_t width, float* out) {
  float sum = 0;
  for (std::size_t i = 0; i < width; ++i) sum += x[i] * x[i];
  const float scale = 1.0f / std::sqrt(sum / static_cast<float>(width) + kEpsilon);
  for (std::size_t i = 0; i < width; ++i) out[i] = x[i] * scale * gain[i];
}

std::string shape_text(const std::vector<std::int64_t>& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

}  // namespace

std::string find_fault(const ModelShape& s) {
  const bool sane = s.vocabulary > 0 && s.vocabulary <= 65536 && s.segments > 0 && s.segments <= 64 && s.layers > 0 &&
                    s.layers <= 32 && s.width > 0 && s.width <= 2048 && s.hidden > 0 && s.hidden <= 8192 && s.heads > 0;
  if (!sane) return "its shape is out of range";
  if (s.width % s.heads != 0) return fmt::format("{} heads do not share a width of {}", s.heads, s.width);
  return {};
}

std::vector<Parameter> parameters_of(const ModelShape& shape) {
  std::vector<Parameter> list;
  std::size_t offset = 0;
  const auto add = [&](const std::string& name, const std::vector<std::int64_t>& extents) {
    std::size_t count = 1;
    for (const std::int64_t extent : extents) count *= static_cast<std::size_t>(extent);
    list.push_back({name, extents, offset, count});
    offset += count;
  };
  add("embedding", {shape.vocabulary, shape.width});
  add("segment", {shape.segments, shape.width});
  for (int layer = 0; layer < shape.layers; ++layer) {
    const std::string name = fmt::format("layers.{}.", layer);
    add(name + "norm1", {shape.width});
    add(name + "qkv", {shape.width, 3 * shape.width});
    add(name + "out", {shape.width, shape.width});
    add(name + "norm2", {shape.width});
    add(name + "up", {shape.width, shape.hidden});
    add(name + "down", {shape.hidden, shape.width});
  }
  add("norm", {shape.width});
  return list;
}

std::size_t parameter_count(const ModelShape& shape) {
  const Parameter last = parameters_of(shape).back();
  return last.offset + last.count;
}

std::vector<float> initial_weights(const ModelShape& shape, const Vocabulary& vocabulary, std::uint64_t seed) {
  std::vector<float> weights(parameter_count(shape));
  const auto width = static_cast<std::size_t>(shape.width);
  Rng rng(mix64(seed));
  for (const Parameter& parameter : parameters_of(shape)) {
    float* out = weights.data() + parameter.offset;
    if (parameter.shape.size() == 1) {  // gains of norms
      std::fill_n(out, parameter.count, 1.0f);
      continue;
    }
    const bool into_residual = parameter.name.ends_with(".out") || parameter.name.ends_with(".down");
    double spread = 1.0 / std::sqrt(static_cast<double>(parameter.shape[0]));
    if (into_residual) spread /= std::sqrt(2.0 * shape.layers);
    if (parameter.name == "segment") spread = kSpread;
    for (std::size_t i = 0; i < parameter.count; ++i) out[i] = static_cast<float>(spread * normal(rng));
  }
  std::map<std::string, SmoothVectors> known;
  for (int id = 0; id < std::min(shape.vocabulary, vocabulary.size()); ++id) {
    const auto [name, value] = place(vocabulary, id);
    const auto entry = known.try_emplace(name, name, seed, width).first;
    entry->second.write(value, weights.data() + static_cast<std::size_t>(id) * width);
  }
  return weights;
}

Transformer::Transformer(const ModelShape& shape, std::vector<float> weights)
    : shape_(shape), weights_(std::move(weights)) {
  for (const Parameter& parameter : parameters_of(shape_)) offsets_.push_back(parameter.offset);
}

Transformer::Cache Transformer::empty_cache() const {
  const auto layers = static_cast<std::size_t>(shape_.layers);
  return {std::vector<std::vector<float>>(layers), std::vector<std::vector<float>>(layers), 0};
}

std::vector<float> Transformer::append(Cache& cache, std::span<const int> tokens, std::span<const int> segments,
                                       const Arithmetic& with) const {
  const std::size_t rows = tokens.size(), width = static_cast<std::size_t>(shape_.width);
  const std::size_t hidden = static_cast<std::size_t>(shape_.hidden), heads = static_cast<std::size_t>(shape_.heads);
  const std::size_t head = width / heads;
  std::vector<float> x(rows * width), normed(rows * width), qkv(rows * 3 * width), mixed(rows * width),
      up(rows * hidden);
  std::vector<float> scores(cache.length + rows);
  for (std::size_t t = 0; t < rows; ++t) {
    const float* token = at(kEmbedding) + static_cast<std::size_t>(tokens[t]) * width;
    const float* segment = at(kSegment) + static_cast<std::size_t>(segments[t]) * width;
    for (std::size_t i = 0; i < width; ++i) x[t * width + i] = token[i] + segment[i];
  }
  for (std::size_t layer = 0; layer < static_cast<std::size_t>(shape_.layers); ++layer) {
    const std::size_t first = kFirstLayer + layer * kPerLayer;
    for (std::size_t t = 0; t < rows; ++t) rms_norm(&x[t * width], at(first + kNorm1), width, &normed[t * width]);
    with.multiply(normed.data(), rows, width, at(first + kQkv), 3 * width, qkv.data(), false);
    auto &keys = cache.keys[layer], &values = cache.values[layer];
    for (std::size_t t = 0; t < rows; ++t) {
      const auto row = qkv.begin() + static_cast<std::ptrdiff_t>(t * 3 * width);
      const auto w = static_cast<std::ptrdiff_t>(width);
      keys.insert(keys.end(), row + w, row + 2 * w);
      values.insert(values.end(), row + 2 * w, row + 3 * w);
      for (std::size_t h = 0; h < heads; ++h) {
        with.attend(&qkv[t * 3 * width + h * head], &keys[h * head], &values[h * head], cache.length + t + 1, width,
                    head, scores.data(), &mixed[t * width + h * head]);
      }
    }
    with.multiply(mixed.data(), rows, width, at(first + kOut), width, x.data(), true);
    for (std::size_t t = 0; t < rows; ++t) rms_norm(&x[t * width], at(first + kNorm2), width, &normed[t * width]);
    with.multiply(normed.data(), rows, width, at(first + kUp), hidden, up.data(), false);
    for (float& value : up) value = value / (1.0f + std::exp(-value));
    with.multiply(up.data(), rows, hidden, at(first + kDown), width, x.data(), true);
  }
  cache.length += rows;
  std::vector<float> output(width);
  rms_norm(&x[(rows - 1) * width], at(offsets_.size() - 1), width, output.data());
  return output;
}

float Transformer::logit(const std::vector<float>& output, int token, const Arithmetic& with) const {
  const std::size_t width = output.size();
  return with.dot(output.data(), at(kEmbedding) + static_cast<std::size_t>(token) * width, width);
}

void put_weights(TensorFile& file, const std::string& prefix, const ModelShape& shape,
                 const std::vector<float>& weights) {
  for (const Parameter& parameter : parameters_of(shape)) {
    const auto first = weights.begin() + static_cast<std::ptrdiff_t>(parameter.offset);
    file.tensors[prefix + parameter.name] = {parameter.shape,
                                             {first, first + static_cast<std::ptrdiff_t>(parameter.count)}};
  }
}

Result<std::vector<float>> take_weights(const TensorFile& file, const std::string& prefix, const ModelShape& shape) {
  std::vector<float> weights;
  for (const Parameter& parameter : parameters_of(shape)) {
    const auto found = file.tensors.find(prefix + parameter.name);
    if (found == file.tensors.end()) return bad_input(fmt::format("it lacks the tensor {}{}", prefix, parameter.name));
    if (found->second.shape != parameter.shape) {
      return bad_input(fmt::format("tensor {}{} has shape {}, expected {}", prefix, parameter.name,
                                   shape_text(found->second.shape), shape_text(parameter.shape)));
    }
    for (const float value : found->second.values) {
      if (!std::isfinite(value))
        return bad_input(fmt::format("tensor {}{} holds a value that is not finite", prefix, parameter.name));
    }
    weights.insert(weights.end(), found->second.values.begin(), found->second.values.end());
  }
  return weights;
}

void put_shape(TensorFile& file, const ModelShape& shape, const std::string& version) {
  const nlohmann::json json = {{"vocabulary", shape.vocabulary}, {"segments", shape.segments},
                               {"layers", shape.layers},         {"width", shape.width},
                               {"heads", shape.heads},           {"hidden", shape.hidden}};
  file.metadata["warpsmith_model"] = json.dump();
  file.metadata["recipe_version"] = version;
}

Result<ModelShape> take_shape(const TensorFile& file, const Vocabulary& vocabulary) {
  const auto shape_of = file.metadata.find("warpsmith_model"), version = file.metadata.find("recipe_version");
  if (shape_of == file.metadata.end() || version == file.metadata.end()) {
    return bad_input("it holds tensors, but no warpsmith model");
  }
  if (version->second != vocabulary.version()) {
    return bad_input(
        fmt::format("it was trained for recipe version {}, and this program has {}: train it again, or choose "
                    "another policy",
                    printable(version->second), vocabulary.version()));
  }
  try {
    const auto json = nlohmann::json::parse(shape_of->second);
    const ModelShape shape = {json.at("vocabulary"), json.at("segments"), json.at("layers"),
                              json.at("width"),      json.at("heads"),    json.at("hidden")};
    if (const std::string fault = find_fault(shape); !fault.empty()) return bad_input(fault);
    if (shape.vocabulary != vocabulary.size() || shape.segments != kSegments) {
      return bad_input("its vocabulary has another size");
    }
    return shape;
  } catch (const nlohmann::json::exception& error) {
    return bad_input(error.what());
  }
}

Result<Model> load_model(const std::filesystem::path& path, const Vocabulary& vocabulary) {
  auto file = load_tensors(path);
  if (!file) return file.error();
  const auto wrong = [&](const Error& error) {
    return bad_input(fmt::format("model {}: {}", path.string(), error.message));
  };
  const auto shape = take_shape(*file, vocabulary);
  if (!shape) return wrong(shape.error());
  auto weights = take_weights(*file, "", *shape);
  if (!weights) return wrong(weights.error());
  return Model{*shape, std::move(*weights), vocabulary.version(), file->metadata};
}

Status save_model(const std::filesystem::path& path, const Model& model, TensorFormat format) {
  TensorFile file;
  file.metadata = model.metadata;
  put_shape(file, model.shape, model.version);
  put_weights(file, "", model.shape, model.weights);
  return save_tensors(path, file, format);
}

}  // namespace warpsmith::embedded
