// Checkpoints as safetensors.
#include "train/checkpoint.h"

#include <fmt/format.h>

#include <cmath>

namespace warpsmith::train {

Status save_checkpoint(const std::filesystem::path& path, const Checkpoint& checkpoint) {
  embedded::TensorFile file;
  embedded::put_shape(file, checkpoint.shape, embedded::Vocabulary::standard().version());
  embedded::put_weights(file, "weights.", checkpoint.shape, checkpoint.learner.weights);
  embedded::put_weights(file, "reference.", checkpoint.shape, checkpoint.reference);
  file.tensors["moments"] = {{static_cast<std::int64_t>(checkpoint.learner.moments.size())},
                             checkpoint.learner.moments};
  nlohmann::json rewards = nlohmann::json::object();
  for (const auto& [problem, moments] : checkpoint.rewards)
    rewards[problem] = {moments.count, moments.mean, moments.squares};
  const nlohmann::json state = {{"stage", checkpoint.stage},
                                {"step", checkpoint.step},
                                {"optimizer_steps", checkpoint.learner.steps},
                                {"measurements", checkpoint.measurements},
                                {"rewards", rewards},
                                {"pools", checkpoint.pools},
                                {"config", checkpoint.config},
                                {"environment", checkpoint.environment}};
  file.metadata["warpsmith_training"] = state.dump();
  return embedded::save_tensors(path, file);
}

Result<Checkpoint> load_checkpoint(const std::filesystem::path& path) {
  const auto file = embedded::load_tensors(path);
  if (!file) return file.error();
  const auto wrong = [&](const std::string& why) {
    return bad_input(fmt::format("checkpoint {}: {}", path.string(), why));
  };
  const auto state = file->metadata.find("warpsmith_training");
  if (state == file->metadata.end()) return wrong("it holds no training run");
  const auto shape = embedded::take_shape(*file, embedded::Vocabulary::standard());
  if (!shape) return wrong(shape.error().message);
  Checkpoint checkpoint;
  checkpoint.shape = *shape;
  auto weights = embedded::take_weights(*file, "weights.", *shape),
       reference = embedded::take_weights(*file, "reference.", *shape);
  if (!weights) return wrong(weights.error().message);
  if (!reference) return wrong(reference.error().message);
  checkpoint.learner.weights = std::move(*weights);
  checkpoint.reference = std::move(*reference);
  const auto moments = file->tensors.find("moments");
  if (moments == file->tensors.end() || moments->second.values.size() != 2 * checkpoint.learner.weights.size()) {
    return wrong("the optimiser's state is missing");
  }
  for (const float value : moments->second.values) {
    if (!std::isfinite(value)) return wrong("the optimiser's state holds a value that is not finite");
  }
  checkpoint.learner.moments = moments->second.values;
  try {
    const auto json = nlohmann::json::parse(state->second);
    checkpoint.stage = json.at("stage").get<std::string>();
    checkpoint.step = json.at("step").get<int>();
    checkpoint.learner.steps = json.at("optimizer_steps").get<std::int64_t>();
    checkpoint.measurements = json.at("measurements").get<std::int64_t>();
    for (const auto& [problem, m] : json.at("rewards").items()) {
      checkpoint.rewards[problem] = {m.at(0).get<std::int64_t>(), m.at(1).get<double>(), m.at(2).get<double>()};
    }
    checkpoint.pools = json.at("pools");
    checkpoint.config = json.at("config");
    checkpoint.environment = json.at("environment").get<std::string>();
  } catch (const nlohmann::json::exception& error) {
    return wrong(error.what());
  }
  return checkpoint;
}

}  // namespace warpsmith::train
