// The gradient side of training: the transformer of policy/embedded/transformer.h over LibTorch, its losses, AdamW. The
// only file that includes LibTorch's headers (versions 1.13 to 2.11); knows nothing of recipes.
#include "../torch_module.h"

#include <torch/torch.h>

#include <cmath>
#include <cstdio>
#include <exception>
#include <memory>
#include <vector>

namespace {

using torch::Tensor;

struct Forward {
  Tensor log_p;    // [targets] of the token that follows, among the allowed
  Tensor entropy;  // [targets] of the masked distribution
};

}  // namespace

// The weights are one flat vector: the optimiser sees one tensor, and state goes in and out in one piece.
struct WarpsmithTorchLearner {
  WarpsmithTorchOptions options{};
  torch::Device device{torch::kCPU};
  Tensor weights, reference, first, second;
  int64_t steps = 0;

  int64_t count() const {
    const int64_t d = options.width, h = options.hidden;
    return (options.vocabulary + options.segments) * d + options.layers * (2 * d + 4 * d * d + 2 * d * h) + d;
  }

  Tensor from_host(const float* values, int64_t size) const {
    return torch::from_blob(const_cast<float*>(values), {size}, torch::kFloat32).clone().to(device);
  }
  Tensor indices(const int32_t* values, int64_t size) const {
    return torch::from_blob(const_cast<int32_t*>(values), {size}, torch::kInt32).to(torch::kInt64).to(device);
  }

  Tensor outputs(const Tensor& flat, const WarpsmithTorchBatch& batch) const;
  Tensor mask(const WarpsmithTorchBatch& batch) const;
  Forward forward(const Tensor& flat, const WarpsmithTorchBatch& batch, double temperature) const;
  Tensor loss(const Forward& now, const WarpsmithTorchBatch& batch, const WarpsmithTorchObjective& objective,
              WarpsmithTorchReport& report) const;
  void update(const Tensor& gradient, double learning_rate);
};

namespace {

// Hands out the flat vector's pieces in order.
class Pieces {
 public:
  explicit Pieces(const Tensor& flat) : flat_(flat) {}
  Tensor next(int64_t rows, int64_t columns) { return next(rows * columns).view({rows, columns}); }
  Tensor next(int64_t size) {
    const Tensor piece = flat_.narrow(0, at_, size);
    at_ += size;
    return piece;
  }

 private:
  const Tensor& flat_;
  int64_t at_ = 0;
};

Tensor rms_norm(const Tensor& x, const Tensor& gain) { return x * torch::rsqrt(x.pow(2).mean(-1, true) + 1e-5) * gain; }

}  // namespace

// The normed output at each target's position: [targets][width].
Tensor WarpsmithTorchLearner::outputs(const Tensor& flat, const WarpsmithTorchBatch& batch) const {
  const int64_t b = batch.sequences, t = batch.length, d = options.width, heads = options.heads, size = d / heads;
  Pieces pieces(flat);
  const Tensor embedding = pieces.next(options.vocabulary, d), segment = pieces.next(options.segments, d);
  const Tensor tokens = indices(batch.tokens, b * t), segments = indices(batch.segments, b * t);
  Tensor x = (embedding.index_select(0, tokens) + segment.index_select(0, segments)).view({b, t, d});
  const Tensor future = torch::ones({t, t}, torch::TensorOptions().dtype(torch::kBool).device(device)).triu(1);
  for (int layer = 0; layer < options.layers; ++layer) {
    const Tensor norm1 = pieces.next(d), qkv_weights = pieces.next(d, 3 * d), out = pieces.next(d, d);
    const Tensor norm2 = pieces.next(d), up = pieces.next(d, options.hidden), down = pieces.next(options.hidden, d);
    const Tensor qkv = rms_norm(x, norm1).matmul(qkv_weights).view({b, t, 3, heads, size}).permute({2, 0, 3, 1, 4});
    Tensor scores = qkv[0].matmul(qkv[1].transpose(-2, -1)) / std::sqrt(static_cast<double>(size));
    scores = scores.masked_fill(future, -INFINITY);
    const Tensor mixed = torch::softmax(scores, -1).matmul(qkv[2]).transpose(1, 2).reshape({b, t, d});
    x = x + mixed.matmul(out);
    x = x + torch::silu(rms_norm(x, norm2).matmul(up)).matmul(down);
  }
  return rms_norm(x, pieces.next(d)).view({b * t, d}).index_select(0, indices(batch.at, batch.targets));
}

// True where a token is allowed: [targets][vocabulary].
Tensor WarpsmithTorchLearner::mask(const WarpsmithTorchBatch& batch) const {
  Tensor allowed = torch::zeros({batch.targets, options.vocabulary}, torch::kBool);
  bool* row = allowed.data_ptr<bool>();
  for (int target = 0; target < batch.targets; ++target, row += options.vocabulary) {
    for (int i = batch.allowed_begin[target]; i < batch.allowed_begin[target + 1]; ++i) row[batch.allowed[i]] = true;
  }
  return allowed.to(device);
}

Forward WarpsmithTorchLearner::forward(const Tensor& flat, const WarpsmithTorchBatch& batch, double temperature) const {
  const Tensor embedding =
      flat.narrow(0, 0, int64_t{options.vocabulary} * options.width).view({options.vocabulary, options.width});
  const Tensor allowed = mask(batch);
  const Tensor logits = outputs(flat, batch).matmul(embedding.t()) / temperature;
  // A large negative number rather than minus infinity, whose product with a probability of 0 is no number.
  const Tensor log_p = torch::log_softmax(logits.masked_fill(allowed.logical_not(), -1e30), -1);
  const Tensor entropy = -(log_p.exp() * log_p.masked_fill(allowed.logical_not(), 0)).sum(-1);
  return {log_p.gather(1, indices(batch.token, batch.targets).unsqueeze(1)).squeeze(1), entropy};
}

Tensor WarpsmithTorchLearner::loss(const Forward& now, const WarpsmithTorchBatch& batch,
                                   const WarpsmithTorchObjective& objective, WarpsmithTorchReport& report) const {
  report.entropy = now.entropy.mean().item<double>();
  report.mean_log_p = now.log_p.mean().item<double>();
  const Tensor bonus = objective.entropy * now.entropy.sum() / static_cast<double>(std::max(1, batch.targets));
  if (objective.kind == WARPSMITH_TORCH_LIKELIHOOD) {
    return -(now.log_p * from_host(batch.weight, batch.targets)).sum() / objective.divisor - bonus;
  }
  const Tensor advantage = from_host(batch.advantage, batch.targets), old = from_host(batch.old_log_p, batch.targets);
  const Tensor ratio = torch::exp(now.log_p - old);
  const Tensor clipped = torch::clamp(ratio, 1 - objective.clip, 1 + objective.clip);
  Tensor each = -torch::minimum(ratio * advantage, clipped * advantage);
  report.clipped_share = (ratio != clipped).to(torch::kFloat32).mean().item<double>();
  if (objective.kl > 0) {
    Tensor difference;
    {
      const torch::NoGradGuard no_gradient;
      difference = forward(reference, batch, objective.temperature).log_p;
    }
    difference = difference - now.log_p;
    const Tensor kl = torch::exp(difference) - difference - 1;
    report.kl = kl.mean().item<double>();
    each = each + objective.kl * kl;
  }
  // The mean over a sequence's tokens, then the sum over sequences.
  const Tensor sequence = indices(batch.sequence, batch.targets);
  const Tensor lengths = torch::bincount(sequence, {}, batch.sequences).clamp_min(1).to(torch::kFloat32);
  return (each / lengths.index_select(0, sequence)).sum() / objective.divisor - bonus;
}

// AdamW, written out so that its state is three tensors that any version saves and loads alike.
void WarpsmithTorchLearner::update(const Tensor& gradient, double learning_rate) {
  const torch::NoGradGuard no_gradient;
  ++steps;
  first.mul_(options.beta1).add_(gradient, 1 - options.beta1);
  second.mul_(options.beta2).addcmul_(gradient, gradient, 1 - options.beta2);
  const double correction1 = 1 - std::pow(options.beta1, static_cast<double>(steps));
  const double correction2 = 1 - std::pow(options.beta2, static_cast<double>(steps));
  const Tensor step = (first / correction1) / ((second / correction2).sqrt() + options.epsilon);
  weights.mul_(1 - learning_rate * options.weight_decay).add_(step, -learning_rate);
}

namespace {

// Runs a body that may throw; 0, or 1 with the message's first line in `error`.
template <class Body>
int guarded(char* error, int size, const Body& body) {
  try {
    body();
    return 0;
  } catch (const std::exception& caught) {
    std::snprintf(error, static_cast<std::size_t>(size), "%s", caught.what());
  } catch (...) {
    std::snprintf(error, static_cast<std::size_t>(size), "unknown exception");
  }
  for (char* c = error; *c != 0; ++c) {
    if (*c == '\n') *c = 0;
  }
  return 1;
}

WarpsmithTorchLearner* create(const WarpsmithTorchOptions* options, char* error, int size) {
  std::unique_ptr<WarpsmithTorchLearner> learner;
  const int failed = guarded(error, size, [&] {
    if (options->threads > 0) torch::set_num_threads(options->threads);
    learner = std::make_unique<WarpsmithTorchLearner>();
    learner->options = *options;
    if (options->device >= 0) {
      if (!torch::cuda::is_available()) throw std::runtime_error("this LibTorch sees no CUDA device");
      learner->device = torch::Device(torch::kCUDA, static_cast<torch::DeviceIndex>(options->device));
    }
    const Tensor zeros = torch::zeros({learner->count()}, torch::TensorOptions().device(learner->device));
    learner->weights = zeros.clone();
    learner->reference = zeros.clone();
    learner->first = zeros.clone();
    learner->second = zeros.clone();
  });
  return failed ? nullptr : learner.release();
}

void destroy(WarpsmithTorchLearner* learner) { delete learner; }

int set_state(WarpsmithTorchLearner* l, const float* weights, const float* moments, int64_t steps, char* error,
              int size) {
  return guarded(error, size, [&] {
    l->weights = l->from_host(weights, l->count());
    if (moments != nullptr) {
      l->first = l->from_host(moments, l->count());
      l->second = l->from_host(moments + l->count(), l->count());
    } else {
      l->first = torch::zeros_like(l->weights);
      l->second = torch::zeros_like(l->weights);
    }
    l->steps = steps;
  });
}

void to_host(const Tensor& tensor, float* out) {
  const Tensor values = tensor.to(torch::kCPU).contiguous();
  std::copy_n(values.data_ptr<float>(), values.numel(), out);
}

int get_state(WarpsmithTorchLearner* l, float* weights, float* moments, int64_t* steps, char* error, int size) {
  return guarded(error, size, [&] {
    to_host(l->weights, weights);
    if (moments != nullptr) {
      to_host(l->first, moments);
      to_host(l->second, moments + l->count());
    }
    if (steps != nullptr) *steps = l->steps;
  });
}

int set_reference(WarpsmithTorchLearner* l, const float* weights, char* error, int size) {
  return guarded(error, size, [&] { l->reference = l->from_host(weights, l->count()); });
}

int log_p(WarpsmithTorchLearner* l, const WarpsmithTorchBatch* batch, double temperature, float* out, char* error,
          int size) {
  return guarded(error, size, [&] {
    const torch::NoGradGuard no_gradient;
    to_host(l->forward(l->weights, *batch, temperature).log_p, out);
  });
}

int step(WarpsmithTorchLearner* l, const WarpsmithTorchBatch* batch, const WarpsmithTorchObjective* objective,
         WarpsmithTorchReport* report, char* error, int size) {
  return guarded(error, size, [&] {
    *report = {};
    const Tensor flat = l->weights.detach().requires_grad_(true);
    const Tensor loss = l->loss(l->forward(flat, *batch, objective->temperature), *batch, *objective, *report);
    report->loss = loss.item<double>();
    if (!std::isfinite(report->loss)) throw std::runtime_error("the loss is not finite");
    loss.backward();
    Tensor gradient = flat.grad();
    report->gradient_norm = gradient.norm().item<double>();
    if (!std::isfinite(report->gradient_norm)) throw std::runtime_error("the gradient is not finite");
    if (objective->gradient_norm > 0 && report->gradient_norm > objective->gradient_norm) {
      gradient = gradient * (objective->gradient_norm / report->gradient_norm);
    }
    l->weights = l->weights.detach();
    l->update(gradient, objective->learning_rate);
  });
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const WarpsmithTorchModule* warpsmith_torch_module(void) {
  static const WarpsmithTorchModule kModule = {WARPSMITH_TORCH_ABI, TORCH_VERSION, create, destroy, set_state,
                                               get_state,           set_reference, log_p,  step};
  return &kModule;
}
