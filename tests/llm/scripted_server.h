// Starts scripted_server.py for one test and stops it with it.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/subprocess.h"

namespace warpsmith::llm {

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string name = (std::filesystem::temp_directory_path() / "warpsmith-llm-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("cannot create a temporary directory");
    path_ = name;
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

class ScriptedServer {
 public:
  explicit ScriptedServer(const nlohmann::json& steps, const std::vector<std::string>& more = {}) {
    EXPECT_TRUE(write_file_atomic(directory_ / "script.json", steps.dump()));
    ChildProcess::Options options;
    options.argv = {"python3",
                    WARPSMITH_SCRIPTED_SERVER,
                    (directory_ / "script.json").string(),
                    "--log",
                    log().string(),
                    "--port-fd",
                    "3"};
    options.argv.insert(options.argv.end(), more.begin(), more.end());
    options.log = directory_ / "server.log";
    auto child = ChildProcess::spawn(options);
    if (!child) throw std::runtime_error(child.error().message);
    child_.emplace(std::move(*child));
    std::string line;
    if (child_->receive(line, 30) != ChildProcess::Receive::line) {
      const auto words = read_file(options.log);
      throw std::runtime_error("the scripted server did not start: " + (words ? *words : std::string()));
    }
    port_ = std::stoi(line);
  }

  std::string url(const std::string& scheme = "http") const {
    return scheme + "://127.0.0.1:" + std::to_string(port_) + "/v1";
  }
  std::filesystem::path log() const { return directory_ / "requests.jsonl"; }
  // What was asked for, one object a request.
  std::vector<nlohmann::json> requests() const {
    std::vector<nlohmann::json> list;
    const auto text = read_file(log());
    if (!text) return list;
    std::istringstream lines(*text);
    for (std::string line; std::getline(lines, line);) list.push_back(nlohmann::json::parse(line));
    return list;
  }
  void kill() { child_->kill(); }

 private:
  TemporaryDirectory directory_;
  std::optional<ChildProcess> child_;
  int port_ = 0;
};

// A whole answer around a recipe or other code.
inline std::string answer_with(const std::string& code) {
  return "## Performance analysis\nThe second kernel waits less.\n\n## Algorithm design\nSmaller blocks.\n\n## Code\n" +
         code;
}
inline std::string recipe_answer(const std::string& recipe) { return answer_with("```recipe\n" + recipe + "\n```\n"); }

}  // namespace warpsmith::llm
