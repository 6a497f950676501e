// What talking to models may cost, and what it has cost so far.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "llm/chat.h"
#include "policy/rng.h"

namespace warpsmith::llm {

// A model that is asked, how often in proportion to the others, and its price for a million tokens.
struct ModelChoice {
  std::string name;
  double weight = 1;
  double input_price = 0, output_price = 0;
};

// "NAME" or "NAME:WEIGHT", where what follows the last colon is a positive number. Error: bad_input.
Result<ModelChoice> parse_model(std::string_view text);
// "IN,OUT" for all models or "NAME=IN,OUT" for one. Error: bad_input.
Status apply_price(std::string_view text, std::vector<ModelChoice>& models);
// By weight. Precondition: there is one.
const ModelChoice& draw_model(const std::vector<ModelChoice>& models, Rng& rng);
double cost_of(const ModelChoice& model, const Usage& usage);

struct BudgetLimits {
  std::int64_t requests = 0;  // HTTP requests, repetitions included; 0: no limit
  std::int64_t tokens = 0;    // prompts and completions
  double cost = 0;            // in the currency of the prices
};

struct Spent {
  std::int64_t requests = 0, prompt_tokens = 0, completion_tokens = 0;
  double cost = 0;
  bool estimated = false;  // some tokens were not counted by the server
};

// Thread-safe.
class Budget {
 public:
  explicit Budget(const BudgetLimits& limits) : limits_(limits) {}
  // False: nothing is left, nothing is taken. pending: what will be charged besides.
  bool take_request(const Usage& pending = {}, double pending_cost = 0);
  void charge(const Usage& usage, double cost);
  Spent spent() const;
  // "120 requests", as what is used up; empty: something is left of everything.
  std::string exhausted() const;

 private:
  std::string exhausted_locked(const Usage& pending = {}, double pending_cost = 0) const;
  BudgetLimits limits_;
  mutable std::mutex mutex_;
  Spent spent_;
};

}  // namespace warpsmith::llm
