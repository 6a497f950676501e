// The facts of a provenance and their JSON form.
#include "report/provenance.h"

#include <fmt/format.h>

#include <ctime>

namespace warpsmith {

namespace {

constexpr std::pair<const char*, std::string Provenance::*> kTexts[] = {
    {"device", &Provenance::device}, {"driver", &Provenance::driver}, {"cuda", &Provenance::cuda},
    {"cublas", &Provenance::cublas}, {"date", &Provenance::date},     {"commit", &Provenance::commit},
    {"mode", &Provenance::mode},     {"seed", &Provenance::seed}};

}  // namespace

std::vector<std::pair<std::string, std::string>> Provenance::facts() const {
  std::vector<std::pair<std::string, std::string>> list;
  for (const auto& [key, member] : kTexts) {
    if (key == std::string_view("date") && clock_mhz > 0) list.emplace_back("clock_mhz", fmt::format("{}", clock_mhz));
    if (!(this->*member).empty()) list.emplace_back(key, this->*member);
  }
  list.insert(list.end(), other.begin(), other.end());
  return list;
}

void to_json(nlohmann::json& json, const Provenance& value) {
  json = nlohmann::json::object();
  for (const auto& [key, member] : kTexts) {
    if (!(value.*member).empty()) json[key] = value.*member;
  }
  if (value.clock_mhz > 0) json["clock_mhz"] = value.clock_mhz;
  if (!value.other.empty()) json["other"] = value.other;
}

void from_json(const nlohmann::json& json, Provenance& value) {
  value = {};
  for (const auto& [key, member] : kTexts) value.*member = json.value(key, std::string());
  value.clock_mhz = json.value("clock_mhz", 0.0);
  value.other = json.value("other", std::map<std::string, std::string>());
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday,
                     parts.tm_hour, parts.tm_min, parts.tm_sec);
}

}  // namespace warpsmith
