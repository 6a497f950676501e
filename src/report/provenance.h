// Provenance: where, when and with what a result was measured. Every row of a report can carry one.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace warpsmith {

struct Provenance {
  std::string device;                        // "NVIDIA H200", "AMD EPYC 9B14, 2 threads"
  std::string driver;                        // empty where there is none, as on a CPU
  std::string cuda, cublas;                  // versions
  double clock_mhz = 0;                      // while measuring; 0: unknown
  std::string date;                          // UTC, "2026-01-31T12:00:00Z"
  std::string commit;                        // of the program
  std::string mode;                          // "offline", "call", "server"
  std::string seed;                          // of inputs and orders
  std::map<std::string, std::string> other;  // further versions: compilers, libraries

  bool operator==(const Provenance&) const = default;

  // Key and value of everything known, in the order above; unknown ones are left out.
  std::vector<std::pair<std::string, std::string>> facts() const;
};

// An object of strings, clock_mhz a number, `other` an object. Unknown members are left out; from_json takes missing
// ones for unknown.
void to_json(nlohmann::json& json, const Provenance& value);
void from_json(const nlohmann::json& json, Provenance& value);

// Now, in UTC, to the second.
std::string utc_now();

}  // namespace warpsmith
