// Weights, prices and limits.
#include "llm/budget.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <optional>

#include "base/text.h"

namespace warpsmith::llm {

namespace {

std::optional<double> number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

}  // namespace

Result<ModelChoice> parse_model(std::string_view text) {
  ModelChoice model{std::string(text), 1, 0, 0};
  if (const std::size_t colon = text.rfind(':'); colon != std::string_view::npos) {
    if (const auto weight = number(text.substr(colon + 1))) {
      if (!(*weight > 0))
        return bad_input(fmt::format("weight {} of model '{}'; accepted: above 0", *weight, printable(text)));
      model.weight = *weight;
      model.name = text.substr(0, colon);
    }
  }
  if (model.name.empty()) return bad_input("a model's name is empty; accepted: NAME or NAME:WEIGHT");
  return model;
}

Status apply_price(std::string_view text, std::vector<ModelChoice>& models) {
  const std::size_t equals = text.rfind('=');
  const std::string_view prices = equals == std::string_view::npos ? text : text.substr(equals + 1);
  const std::size_t comma = prices.find(',');
  const auto in = number(prices.substr(0, comma));
  const auto out = number(comma == std::string_view::npos ? std::string_view() : prices.substr(comma + 1));
  if (!in || !out || *in < 0 || *out < 0) {
    return bad_input(fmt::format("price '{}'; accepted: IN,OUT or MODEL=IN,OUT for a million tokens", printable(text)));
  }
  bool found = equals == std::string_view::npos;
  for (ModelChoice& model : models) {
    if (equals != std::string_view::npos && model.name != text.substr(0, equals)) continue;
    found = true;
    model.input_price = *in;
    model.output_price = *out;
  }
  if (!found)
    return bad_input(fmt::format("price '{}' names no model of --llm-model or --checker-model", printable(text)));
  return ok_status();
}

const ModelChoice& draw_model(const std::vector<ModelChoice>& models, Rng& rng) {
  double sum = 0;
  for (const ModelChoice& model : models) sum += model.weight;
  double at = rng.unit() * sum;
  for (const ModelChoice& model : models) {
    if ((at -= model.weight) < 0) return model;
  }
  return models.back();
}

double cost_of(const ModelChoice& model, const Usage& usage) {
  return 1e-6 * (model.input_price * static_cast<double>(usage.prompt_tokens) +
                 model.output_price * static_cast<double>(usage.completion_tokens));
}

bool Budget::take_request(const Usage& pending, double pending_cost) {
  const std::lock_guard lock(mutex_);
  if (!exhausted_locked(pending, pending_cost).empty()) return false;
  ++spent_.requests;
  return true;
}

void Budget::charge(const Usage& usage, double cost) {
  const std::lock_guard lock(mutex_);
  spent_.prompt_tokens += usage.prompt_tokens;
  spent_.completion_tokens += usage.completion_tokens;
  spent_.cost += cost;
  spent_.estimated = spent_.estimated || usage.estimated;
}

Spent Budget::spent() const {
  const std::lock_guard lock(mutex_);
  return spent_;
}

std::string Budget::exhausted() const {
  const std::lock_guard lock(mutex_);
  return exhausted_locked();
}

std::string Budget::exhausted_locked(const Usage& pending, double pending_cost) const {
  if (limits_.requests > 0 && spent_.requests >= limits_.requests) return fmt::format("{} requests", limits_.requests);
  const std::int64_t tokens =
      spent_.prompt_tokens + spent_.completion_tokens + pending.prompt_tokens + pending.completion_tokens;
  if (limits_.tokens > 0 && tokens >= limits_.tokens) return fmt::format("{} tokens", limits_.tokens);
  if (limits_.cost > 0 && spent_.cost + pending_cost >= limits_.cost) return fmt::format("a cost of {}", limits_.cost);
  return {};
}

}  // namespace warpsmith::llm
