// Wisdom: the best known kernel of each tuned problem on one machine, as a file of JSON lines. The first line is the
// header
//   {"warpsmith_wisdom": 1, "machine": "NVIDIA H200", "compute_capability": 90, "units": 132, "target": "sm90", ...}
// and every further one a problem
//   {"problem": "64x64x64 tn f16 f32", "recipe": "tiny ...", "cold_us": 1.5, "baseline": "cublaslt-auto-tn", ...}
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "problem/machine.h"
#include "problem/problem.h"

namespace warpsmith {

// What a file's entries were measured on; entries of different machines never share a file.
struct WisdomHeader {
  std::string machine;  // Machine::name
  int compute_capability = 0;
  int units = 0;
  Target target = Target::cpu;
  int threads = 1;
  std::map<std::string, std::string> versions;  // driver, toolkit, libraries: of the run that wrote the file last

  // Same device type and target; versions may differ.
  bool same_machine(const WisdomHeader& other) const;
};
WisdomHeader wisdom_header(const Machine& machine, Target target, int threads);

struct WisdomEntry {
  Problem problem;
  std::string recipe;       // full text form
  std::string source_hash;  // SHA-256 of the kernel source that was measured
  double cold_us = 0, warm_us = 0;
  // With programmatic dependent launch, of whichever recipe is fastest then; 0 and empty: not measured.
  double pdl_us = 0;
  std::string pdl_recipe;
  // The fastest baseline of the problem's layout in the same comparison; empty and 0: none was measured.
  std::string baseline;
  double baseline_us = 0, baseline_warm_us = 0;
  std::string baseline_setting;  // the baseline's own words for what it ran: algorithm, tile, stages
  // Single calls after idle time, of whichever recipe is fastest then; 0 and empty: not measured.
  double server_us = 0, baseline_server_us = 0;
  std::string server_recipe;
  int gates_passed = 0;                           // all that ran
  std::string date;                               // ISO 8601 UTC
  std::string commit;                             // of the program
  std::map<std::string, std::string> provenance;  // driver, cuda, cublas of this entry

  std::optional<double> ratio() const {
    return baseline_us > 0 && cold_us > 0 ? std::optional(baseline_us / cold_us) : std::nullopt;
  }
};
void to_json(nlohmann::json& json, const WisdomEntry& entry);
void from_json(const nlohmann::json& json, WisdomEntry& entry);

// Whether `fresh` takes the place of `known`: a newer measurement of the same kernel does; another kernel does when it
// is faster, by the ratio to the same baseline where both have one (clocks differ between runs), else by its cold time.
bool supersedes(const WisdomEntry& fresh, const WisdomEntry& known);

// One line of a file, without its line end. Error: bad_input, to be read after "file:line: ".
Result<WisdomHeader> parse_wisdom_header(const std::string& line);
Result<WisdomEntry> parse_wisdom_entry(const std::string& line);

class Wisdom {
 public:
  explicit Wisdom(WisdomHeader header) : header_(std::move(header)) {}

  // Error: bad_input with "file:line: ...", environment when the file cannot be read.
  static Result<Wisdom> load(const std::filesystem::path& path);
  // One entry a line, sorted by problem; written whole or not at all.
  Status save(const std::filesystem::path& path) const;

  const WisdomHeader& header() const { return header_; }
  // True when the entry was taken.
  bool merge(const WisdomEntry& entry);
  void set_versions(std::map<std::string, std::string> versions) { header_.versions = std::move(versions); }
  const WisdomEntry* find(const Problem& problem) const;
  std::size_t size() const { return entries_.size(); }
  std::vector<WisdomEntry> entries() const;  // in the order of the file

 private:
  WisdomHeader header_;
  std::map<std::string, WisdomEntry> entries_;  // by sort key
};

// "NVIDIA H200" to "h200", "AMD EPYC 9B14" with 2 threads to "amd-epyc-9b14-2t": a file's name without extension.
std::string wisdom_name(const WisdomHeader& header);

}  // namespace warpsmith
