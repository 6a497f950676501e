// The embedded model: a small decoder-only transformer, and its inference on the CPU. Pre-norm blocks (RMS norm, causal
// multi-head attention, a SiLU layer), no biases; output logits are products with the input embeddings.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "policy/embedded/matmul.h"
#include "policy/embedded/tensor_file.h"
#include "policy/embedded/vocabulary.h"

namespace warpsmith::embedded {

struct ModelShape {
  int vocabulary = 0, segments = kSegments;
  int layers = 4, width = 160, heads = 5, hidden = 640;
  bool operator==(const ModelShape&) const = default;
};
// Nothing is wrong: empty. Bounds keep a damaged file from asking for all memory.
std::string find_fault(const ModelShape& shape);

// One weight of the flat parameter vector; matrices are [inputs][outputs].
struct Parameter {
  std::string name;  // "layers.0.qkv"
  std::vector<std::int64_t> shape;
  std::size_t offset = 0, count = 0;
};
std::vector<Parameter> parameters_of(const ModelShape& shape);
std::size_t parameter_count(const ModelShape& shape);

// Starting weights. Embeddings of bins and of knob values are smooth in the value and shared between families' fields
// of one name, so that what is learnt of one size or tile holds nearly for its neighbours.
std::vector<float> initial_weights(const ModelShape& shape, const Vocabulary& vocabulary, std::uint64_t seed);

class Transformer {
 public:
  Transformer(const ModelShape& shape, std::vector<float> weights);

  const ModelShape& shape() const { return shape_; }
  const std::vector<float>& weights() const { return weights_; }

  // Keys and values of the tokens so far; copying one forks the sequence.
  struct Cache {
    std::vector<std::vector<float>> keys, values;  // by layer: [length][width]
    std::size_t length = 0;
  };
  Cache empty_cache() const;

  // Appends tokens (each with its segment) and returns the normed output of the last one, `width` floats.
  std::vector<float> append(Cache& cache, std::span<const int> tokens, std::span<const int> segments,
                            const Arithmetic& with = arithmetic()) const;
  float logit(const std::vector<float>& output, int token, const Arithmetic& with = arithmetic()) const;

 private:
  const float* at(std::size_t parameter) const { return weights_.data() + offsets_[parameter]; }

  ModelShape shape_;
  std::vector<float> weights_;
  std::vector<std::size_t> offsets_;  // as parameters_of()
};

// A model as it ships: weights, what they were trained for, and how.
struct Model {
  ModelShape shape;
  std::vector<float> weights;
  std::string version;                          // of the vocabulary
  std::map<std::string, std::string> metadata;  // "target", "stage", "config", ... as the trainer wrote them
};

// Error (bad_input): damaged, weights that are not finite, or a model of another recipe version; environment: no file.
Result<Model> load_model(const std::filesystem::path& path, const Vocabulary& vocabulary);
Status save_model(const std::filesystem::path& path, const Model& model, TensorFormat format);
// Parts of the above, for checkpoints that hold more.
void put_weights(TensorFile& file, const std::string& prefix, const ModelShape& shape,
                 const std::vector<float>& weights);
Result<std::vector<float>> take_weights(const TensorFile& file, const std::string& prefix, const ModelShape& shape);
void put_shape(TensorFile& file, const ModelShape& shape, const std::string& version);
Result<ModelShape> take_shape(const TensorFile& file, const Vocabulary& vocabulary);

}  // namespace warpsmith::embedded
