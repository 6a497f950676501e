// Records as text.
#include "archive/record_text.h"

#include <cmath>
#include <limits>

namespace warpsmith {

namespace {

void make_finite(nlohmann::json& json) {
  if (json.is_structured()) {
    for (auto& element : json) make_finite(element);
  } else if (json.is_number_float() && !std::isfinite(json.get<double>())) {
    json = std::copysign(std::numeric_limits<double>::max(), std::isnan(json.get<double>()) ? 1 : json.get<double>());
  }
}

}  // namespace

std::string record_text(nlohmann::json json) {
  make_finite(json);
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace warpsmith
