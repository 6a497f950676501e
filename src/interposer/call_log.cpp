// Lines of JSON, each written and flushed whole.
#include "interposer/call_log.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace warpsmith::interposer {

namespace {

const char* order_name(Order order) { return order == Order::column ? "column" : "row"; }

nlohmann::json to_json(const Product& product) {
  return {{"m", product.d.rows},
          {"n", product.d.columns},
          {"k", product.a.result_columns()},
          {"ops", fmt::format("{}{}", product.a.transposed ? 'T' : 'N', product.b.transposed ? 'T' : 'N')},
          {"orders", {order_name(product.a.order), order_name(product.b.order), order_name(product.d.order)}},
          {"ld", {product.a.ld, product.b.ld, product.d.ld}},
          {"strides", {product.a.stride, product.b.stride, product.d.stride}},
          {"batch_count", product.batch_count},
          {"type", product.type == WARPSMITH_F16    ? "f16"
                   : product.type == WARPSMITH_BF16 ? "bf16"
                                                    : "other"}};
}

std::string signature(const char* function, const Product& product) {
  return std::string(function) + " " + describe(product);
}

}  // namespace

std::string describe(const Product& product) { return to_json(product).dump(); }

void CallLog::record(const char* function, const Product& product, const char* reason,
                     const std::function<std::string()>& explain) {
  if (file_ == nullptr) return;
  const std::lock_guard lock(mutex_);
  if (calls_[{signature(function, product), reason == nullptr ? "" : reason}]++ > 0) return;
  nlohmann::json line = to_json(product);
  line["function"] = function;
  line["ran"] = reason == nullptr ? "warpsmith" : "cublas";
  if (reason != nullptr) line["reason"] = reason;
  const nlohmann::json explained = nlohmann::json::parse(explain(), nullptr, false);
  if (explained.is_object()) line["explain"] = explained;
  fmt::print(file_, "{}\n", line.dump());
  std::fflush(file_);
}

void CallLog::write_totals() {
  if (file_ == nullptr) return;
  const std::lock_guard lock(mutex_);
  std::int64_t ours = 0, all = 0;
  std::map<std::string, std::int64_t> reasons;
  for (const auto& [key, count] : calls_) {
    all += count;
    if (key.second.empty()) {
      ours += count;
    } else {
      reasons[key.second] += count;
    }
  }
  const nlohmann::json line = {
      {"totals", {{"calls", all}, {"warpsmith", ours}, {"cublas", all - ours}, {"reasons", reasons}}}};
  fmt::print(file_, "{}\n", line.dump());
  std::fflush(file_);
}

}  // namespace warpsmith::interposer
