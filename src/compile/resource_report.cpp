// Reads registers, spills, stack, shared memory and warnings out of ptxas's report.
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "compile/resource_report.h"

namespace warpsmith {

namespace {

constexpr std::size_t kLongestLine = 1024;
constexpr std::size_t kMostWarnings = 100;

// The number before (or after) the words that `pattern` holds; -1 where there is none.
int number_in(const std::string& line, const std::regex& pattern) {
  std::smatch match;
  return std::regex_search(line, match, pattern) ? std::stoi(match[1]) : -1;
}

void keep_larger(int& kept, int value) { kept = std::max(kept, value); }

}  // namespace

// A source may hold several functions; the largest figure of each kind is kept, so that no kernel hides another's.
ResourceReport parse_ptxas_log(const std::string& log) {
  static const std::regex kRegisters(R"(Used (\d{1,9}) registers)");
  static const std::regex kStack(R"((\d{1,9}) bytes stack frame)");
  static const std::regex kStores(R"((\d{1,9}) bytes spill stores)");
  static const std::regex kLoads(R"((\d{1,9}) bytes spill loads)");
  static const std::regex kShared(R"((\d{1,9}) bytes smem)");
  ResourceReport report;
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    // ptxas writes short lines; a candidate's own text, quoted in a message, must not exhaust the matcher.
    if (line.size() > kLongestLine) line.resize(kLongestLine);
    const bool warns = line.find("warning") != std::string::npos;
    if (warns && report.warnings.size() < kMostWarnings) report.warnings.push_back(line);
    if (line.find("wgmma.mma_async instructions are serialized") != std::string::npos) report.wgmma_serialized = true;
    if (line.find("registers") != std::string::npos && line.find("ptxas info") != std::string::npos) {
      keep_larger(report.registers, number_in(line, kRegisters));
      keep_larger(report.static_smem_bytes, std::max(0, number_in(line, kShared)));
    }
    if (line.find("bytes stack frame") != std::string::npos) keep_larger(report.stack_bytes, number_in(line, kStack));
    keep_larger(report.spill_store_bytes, number_in(line, kStores));
    keep_larger(report.spill_load_bytes, number_in(line, kLoads));
  }
  return report;
}

void to_json(nlohmann::json& json, const ResourceReport& report) {
  json = {{"registers", report.registers},
          {"stack_bytes", report.stack_bytes},
          {"spill_store_bytes", report.spill_store_bytes},
          {"spill_load_bytes", report.spill_load_bytes},
          {"static_smem_bytes", report.static_smem_bytes},
          {"wgmma_serialized", report.wgmma_serialized},
          {"warnings", report.warnings}};
}

void from_json(const nlohmann::json& json, ResourceReport& report) {
  json.at("registers").get_to(report.registers);
  json.at("stack_bytes").get_to(report.stack_bytes);
  json.at("spill_store_bytes").get_to(report.spill_store_bytes);
  json.at("spill_load_bytes").get_to(report.spill_load_bytes);
  json.at("static_smem_bytes").get_to(report.static_smem_bytes);
  json.at("wgmma_serialized").get_to(report.wgmma_serialized);
  json.at("warnings").get_to(report.warnings);
}

}  // namespace warpsmith
