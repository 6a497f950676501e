// Batches, and the calls into the module.
#include "train/learner.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/paths.h"

namespace warpsmith::train {

namespace {

std::int32_t device_number(const std::string& device) {
  if (device == "cpu") return -1;
  return device == "cuda" ? 0 : device.back() - '0';
}

Error said(const std::array<char, 512>& error) { return failure(fmt::format("LibTorch: {}", error.data())); }

Result<const WarpsmithTorchModule*> load_module(const std::filesystem::path& file) {
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = dlerror();
    return environment_error(fmt::format("cannot load {}: {}", file.string(), why == nullptr ? "unknown reason" : why));
  }
  using Entry = const WarpsmithTorchModule* (*)();
  const auto entry = reinterpret_cast<Entry>(dlsym(library, "warpsmith_torch_module"));
  const WarpsmithTorchModule* module = entry == nullptr ? nullptr : entry();
  if (module == nullptr || module->abi != WARPSMITH_TORCH_ABI) {
    return environment_error(fmt::format("{} is of another version of warpsmith: build it again", file.string()));
  }
  return module;
}

}  // namespace

Result<std::filesystem::path> find_torch_module() {
  const std::filesystem::path file = executable_dir() / "warpsmith-torch.so";
  std::error_code ignored;
  if (std::filesystem::exists(file, ignored)) return file;
  return environment_error(
      "training needs LibTorch, which this build did not find: install libtorch-dev or PyTorch and build again");
}

Batch::Batch(const std::vector<Example>& examples) {
  std::size_t length = 1;
  for (const Example& example : examples) {
    length = std::max(length, example.prompt.tokens.size() + example.output.tokens.size() - 1);
  }
  tokens_.assign(examples.size() * length, 0);
  segments_.assign(examples.size() * length, 0);
  allowed_begin_.push_back(0);
  for (std::size_t s = 0; s < examples.size(); ++s) {
    const auto& [prompt, output, weight, advantage] = examples[s];
    const std::size_t start = s * length, known = prompt.tokens.size();
    for (std::size_t i = 0; i < known; ++i) {
      tokens_[start + i] = prompt.tokens[i];
      segments_[start + i] = prompt.segments[i];
    }
    for (std::size_t i = 0; i < output.tokens.size(); ++i) {
      if (i + 1 < output.tokens.size()) {
        tokens_[start + known + i] = output.tokens[i];
        segments_[start + known + i] = output.segments[i];
      }
      if (output.allowed[i].size() < 2) continue;
      at_.push_back(static_cast<std::int32_t>(start + known + i - 1));
      token_.push_back(output.tokens[i]);
      sequence_.push_back(static_cast<std::int32_t>(s));
      allowed_.insert(allowed_.end(), output.allowed[i].begin(), output.allowed[i].end());
      allowed_begin_.push_back(static_cast<std::int32_t>(allowed_.size()));
      weight_.push_back(static_cast<float>(weight));
      advantage_.push_back(static_cast<float>(advantage));
    }
  }
  old_log_p_.assign(token_.size(), 0);
  view_ = {static_cast<std::int32_t>(examples.size()),
           static_cast<std::int32_t>(length),
           tokens_.data(),
           segments_.data(),
           static_cast<std::int32_t>(token_.size()),
           at_.data(),
           token_.data(),
           sequence_.data(),
           allowed_begin_.data(),
           allowed_.data(),
           weight_.data(),
           advantage_.data(),
           old_log_p_.data()};
}

void Batch::set_old_log_p(std::vector<float> values) {
  old_log_p_ = std::move(values);
  view_.old_log_p = old_log_p_.data();
}

Result<std::unique_ptr<Learner>> Learner::open(const embedded::ModelShape& shape, const TrainConfig& config,
                                               const std::filesystem::path& module) {
  std::filesystem::path file = module;
  if (file.empty()) {
    auto found = find_torch_module();
    if (!found) return found.error();
    file = std::move(*found);
  }
  const auto loaded = load_module(file);
  if (!loaded) return loaded.error();
  const WarpsmithTorchOptions options = {shape.vocabulary,
                                         shape.segments,
                                         shape.layers,
                                         shape.width,
                                         shape.heads,
                                         shape.hidden,
                                         config.threads,
                                         device_number(config.device),
                                         config.optimizer.beta1,
                                         config.optimizer.beta2,
                                         config.optimizer.epsilon,
                                         config.optimizer.weight_decay};
  std::array<char, 512> error{};
  std::unique_ptr<Learner> learner(new Learner);
  learner->module_ = *loaded;
  learner->count_ = embedded::parameter_count(shape);
  learner->learner_ = learner->module_->create(&options, error.data(), error.size());
  if (learner->learner_ == nullptr) return environment_error(said(error).message);
  return learner;
}

Learner::~Learner() {
  if (learner_ != nullptr) module_->destroy(learner_);
}

Status Learner::set_state(const LearnerState& state) {
  std::array<char, 512> error{};
  if (state.weights.size() != count_) return failure("the weights are of another model");
  const float* moments = state.moments.empty() ? nullptr : state.moments.data();
  if (module_->set_state(learner_, state.weights.data(), moments, state.steps, error.data(), error.size()) != 0) {
    return said(error);
  }
  return ok_status();
}

Result<LearnerState> Learner::state() const {
  std::array<char, 512> error{};
  LearnerState state{std::vector<float>(count_), std::vector<float>(2 * count_), 0};
  if (module_->get_state(learner_, state.weights.data(), state.moments.data(), &state.steps, error.data(),
                         error.size()) != 0) {
    return said(error);
  }
  return state;
}

Result<std::vector<float>> Learner::weights() const {
  std::array<char, 512> error{};
  std::vector<float> weights(count_);
  if (module_->get_state(learner_, weights.data(), nullptr, nullptr, error.data(), error.size()) != 0)
    return said(error);
  return weights;
}

Status Learner::set_reference(const std::vector<float>& weights) {
  std::array<char, 512> error{};
  if (module_->set_reference(learner_, weights.data(), error.data(), error.size()) != 0) return said(error);
  return ok_status();
}

Result<std::vector<float>> Learner::log_p(const Batch& batch, double temperature) const {
  std::array<char, 512> error{};
  std::vector<float> values(batch.targets());
  if (values.empty()) return values;
  if (module_->log_p(learner_, &batch.view(), temperature, values.data(), error.data(), error.size()) != 0)
    return said(error);
  return values;
}

Result<WarpsmithTorchReport> Learner::step(const Batch& batch, const WarpsmithTorchObjective& objective) {
  std::array<char, 512> error{};
  WarpsmithTorchReport report{};
  if (batch.targets() == 0) return report;
  if (module_->step(learner_, &batch.view(), &objective, &report, error.data(), error.size()) != 0) return said(error);
  return report;
}

}  // namespace warpsmith::train
