// Configuration as JSON: one list of members serves reading, writing and checking.
#include "train/config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "base/file.h"
#include "base/text.h"

namespace warpsmith::train {

namespace {

// Hands every member to `visit(section, name, reference, lowest, highest)`; text members carry no range.
template <class Config, class Visit>
void for_each_member(Config& c, const Visit& visit) {
  visit("", "seed", c.seed, 0.0, 1.8e19);
  visit("", "threads", c.threads, 0.0, 1024.0);
  visit("", "checkpoint_interval", c.checkpoint_interval, 1.0, 1e9);
  visit("", "held_out_share", c.held_out_share, 0.0, 0.9);
  visit("", "device", c.device, 0.0, 0.0);
  visit("model", "layers", c.model.layers, 1.0, 32.0);
  visit("model", "width", c.model.width, 8.0, 2048.0);
  visit("model", "heads", c.model.heads, 1.0, 64.0);
  visit("model", "hidden", c.model.hidden, 8.0, 8192.0);
  visit("optimizer", "beta1", c.optimizer.beta1, 0.0, 0.9999);
  visit("optimizer", "beta2", c.optimizer.beta2, 0.0, 0.99999);
  visit("optimizer", "epsilon", c.optimizer.epsilon, 1e-16, 1.0);
  visit("optimizer", "weight_decay", c.optimizer.weight_decay, 0.0, 10.0);
  visit("optimizer", "gradient_norm", c.optimizer.gradient_norm, 0.0, 1e9);
  visit("optimizer", "warmup", c.optimizer.warmup, 0.0, 1e9);
  visit("exemplars", "choice", c.exemplars.choice, 0.0, 0.0);
  visit("exemplars", "bucket_width", c.exemplars.bucket_width, 1e-4, 100.0);
  visit("exemplars", "temperature", c.exemplars.temperature, 1e-4, 1e6);
  visit("exemplars", "own_share", c.exemplars.own_share, 0.0, 1.0);
  visit("exemplars", "neighbour_share", c.exemplars.neighbour_share, 0.0, 1.0);
  visit("reward", "alpha", c.reward.alpha, 0.0, 1e6);
  visit("reward", "beta", c.reward.beta, 0.0, 1e6);
  visit("reward", "clip", c.reward.clip, 1e-3, 1e6);
  visit("supervised", "steps", c.supervised.steps, 0.0, 1e9);
  visit("supervised", "batch", c.supervised.batch, 1.0, 1e6);
  visit("supervised", "learning_rate", c.supervised.learning_rate, 0.0, 10.0);
  visit("supervised", "legal_share", c.supervised.legal_share, 0.0, 1.0);
  visit("supervised", "winner_temperature", c.supervised.winner_temperature, 1e-6, 1e6);
  visit("self", "steps", c.self.steps, 0.0, 1e9);
  visit("self", "problems", c.self.problems, 1.0, 1e6);
  visit("self", "samples", c.self.samples, 1.0, 1e6);
  visit("self", "learning_rate", c.self.learning_rate, 0.0, 10.0);
  visit("self", "temperature", c.self.temperature, 1e-3, 100.0);
  visit("contrastive", "steps", c.contrastive.steps, 0.0, 1e9);
  visit("contrastive", "problems", c.contrastive.problems, 1.0, 1e6);
  visit("contrastive", "group", c.contrastive.group, 2.0, 1e6);
  visit("contrastive", "updates", c.contrastive.updates, 1.0, 1000.0);
  visit("contrastive", "learning_rate", c.contrastive.learning_rate, 0.0, 10.0);
  visit("contrastive", "temperature", c.contrastive.temperature, 1e-3, 100.0);
  visit("contrastive", "clip", c.contrastive.clip, 1e-6, 10.0);
  visit("contrastive", "kl", c.contrastive.kl, 0.0, 1e6);
  visit("contrastive", "entropy", c.contrastive.entropy, 0.0, 1e6);
  visit("contrastive", "bare_share", c.contrastive.bare_share, 0.0, 1.0);
}

std::string full_name(const std::string& section, const std::string& name) {
  return section.empty() ? name : section + "." + name;
}

Status check_known(const nlohmann::json& given, const nlohmann::json& known, const std::string& section) {
  for (const auto& [name, value] : given.items()) {
    const std::string full = full_name(section, name);
    if (!known.contains(name)) {
      std::vector<std::string> names;
      for (const auto& [each, ignored] : known.items()) names.push_back(each);
      return bad_input(fmt::format("unknown member '{}'; accepted{}: {}", printable(full),
                                   section.empty() ? "" : " in " + section, fmt::join(names, ", ")));
    }
    if (known.at(name).is_object() != value.is_object()) return bad_input(fmt::format("'{}' has the wrong type", full));
    if (value.is_object()) {
      if (const Status status = check_known(value, known.at(name), full); !status) return status.error();
    }
  }
  return ok_status();
}

Status check_words(const TrainConfig& config) {
  const std::string& choice = config.exemplars.choice;
  if (choice != "none" && choice != "random" && choice != "buckets") {
    return bad_input(fmt::format("exemplars.choice = '{}'; accepted: none, random, buckets", printable(choice)));
  }
  const std::string& device = config.device;
  const bool numbered = device.starts_with("cuda:") && device.size() == 6 && device[5] >= '0' && device[5] <= '9';
  if (device != "cpu" && device != "cuda" && !numbered) {
    return bad_input(fmt::format("device = '{}'; accepted: cpu, cuda, cuda:0 to cuda:9", printable(device)));
  }
  if (config.model.width % config.model.heads != 0) {
    return bad_input(
        fmt::format("model.heads = {} must divide model.width = {}", config.model.heads, config.model.width));
  }
  if (config.exemplars.own_share + config.exemplars.neighbour_share > 1) {
    return bad_input("exemplars.own_share and exemplars.neighbour_share are more than 1 together");
  }
  return ok_status();
}

}  // namespace

embedded::ExemplarChoice TrainConfig::exemplar_choice() const {
  if (exemplars.choice == "none") return embedded::ExemplarChoice::none;
  return exemplars.choice == "random" ? embedded::ExemplarChoice::random : embedded::ExemplarChoice::buckets;
}

nlohmann::json to_json(const TrainConfig& config) {
  nlohmann::json json = nlohmann::json::object();
  for_each_member(config, [&json](const std::string& section, const std::string& name, const auto& value, double,
                                  double) { (section.empty() ? json : json[section])[name] = value; });
  return json;
}

Result<TrainConfig> parse_config(const nlohmann::json& json) {
  TrainConfig config;
  if (!json.is_object()) return bad_input("a configuration is a JSON object");
  if (const Status status = check_known(json, to_json(config), ""); !status) return status.error();
  std::optional<Error> error;
  for_each_member(
      config, [&](const std::string& section, const std::string& name, auto& value, double low, double high) {
        const nlohmann::json empty = nlohmann::json::object();
        const nlohmann::json& from = section.empty() ? json : json.contains(section) ? json.at(section) : empty;
        if (error || !from.contains(name)) return;
        const nlohmann::json& given = from.at(name);
        using Value = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<Value, std::string>) {
          if (!given.is_string()) error = bad_input(fmt::format("'{}' must be a string", full_name(section, name)));
          if (!error) value = given.get<std::string>();
        } else {
          const bool fits = given.is_number() && (std::is_floating_point_v<Value> || given.is_number_integer());
          if (!fits || !(given.get<double>() >= low && given.get<double>() <= high)) {
            error = bad_input(fmt::format("'{}' = {}; accepted: {} from {:g} to {:g}", full_name(section, name),
                                          printable(given.dump()),
                                          std::is_floating_point_v<Value> ? "a number" : "a whole number", low, high));
            return;
          }
          value = given.get<Value>();
        }
      });
  if (error) return *error;
  if (const Status status = check_words(config); !status) return status.error();
  return config;
}

Result<TrainConfig> load_config(const std::filesystem::path& path) {
  const auto text = read_file(path);
  if (!text) return text.error();
  const auto json = nlohmann::json::parse(*text, nullptr, false, true);
  if (json.is_discarded()) return bad_input(fmt::format("{} is not JSON", path.string()));
  auto config = parse_config(json);
  if (!config) return bad_input(fmt::format("{}: {}", path.string(), config.error().message));
  return config;
}

}  // namespace warpsmith::train
