// Policy llm as a user meets it: on the CPU target, with real compiles, gates and clocks, against a scripted endpoint;
// the index; the data sets.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "scripted_server.h"

namespace warpsmith::llm {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

class LlmCli : public ::testing::Test {
 protected:
  ProcessOutput run(const std::vector<std::string>& arguments) const {
    ProcessRequest request;
    request.argv = {WARPSMITH_CLI};
    request.argv.insert(request.argv.end(), arguments.begin(), arguments.end());
    request.environment = {{"WARPSMITH_DATA", (home_ / "data").string()},
                           {"WARPSMITH_CACHE", (fs::temp_directory_path() / "warpsmith-cli-test-cache").string()},
                           {"WARPSMITH_LLM_KEY", "sk-secret-3"},
                           {"WARPSMITH_TEST_CHECKER_KEY", "sk-of-the-checker"}};
    request.limits.wall_seconds = 200;
    const auto output = run_process(request);
    EXPECT_TRUE(output.ok()) << output.error().message;
    return *output;
  }
  static std::vector<std::string> optimize(const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"optimize",  "48", "40",       "56",  "--target", "cpu",
                                          "--threads", "1",  "--policy", "llm", "--quiet"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  static std::vector<std::string> optimize_task(const fs::path& task, const ScriptedServer& server,
                                                const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"optimize",  "--task",    task.string(), "--target",    "cpu",
                                          "--threads", "1",         "--policy",    "llm",         "--quiet",
                                          "--json",    "--llm-url", server.url(),  "--llm-model", "small"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  void expect_refused(const std::vector<std::string>& arguments, int code, const std::string& part) const {
    const ProcessOutput output = run(arguments);
    EXPECT_EQ(output.status.exit_code, code) << output.err;
    EXPECT_NE(output.err.find(part), std::string::npos) << output.err << " lacks " << part;
    EXPECT_EQ(std::count(output.err.begin(), output.err.end(), '\n'), 1) << output.err;
  }

  TemporaryDirectory home_;
};

TEST_F(LlmCli, RefusesWhatCannotBeMeant) {
  expect_refused(optimize({}), 2, "policy llm needs --llm-url; accepted: http://HOST:PORT/v1");
  expect_refused(optimize({"--llm-url", "http://127.0.0.1:1"}), 2, "policy llm needs --llm-model NAME");
  expect_refused(optimize({"--llm-url", "ftp://x", "--llm-model", "m"}), 2, "'ftp://x' is not the URL of an endpoint");
  expect_refused(optimize({"--llm-url", "http://me:secret@x", "--llm-model", "m"}), 2,
                 "keys come from the environment");
  expect_refused(optimize({"--llm-url", "http://x", "--llm-model", "m:0"}), 2, "accepted: above 0");
  expect_refused(optimize({"--llm-url", "http://x", "--llm-model", "m", "--llm-cost", "1"}), 2,
                 "--llm-cost needs --llm-price");
  expect_refused(optimize({"--llm-url", "http://x", "--llm-model", "m", "--index", "/nonexistent"}), 2,
                 "there is no index /nonexistent");
  expect_refused(optimize({"--llm-url", "http://x", "--llm-model", "m", "--llm-prompts", "/nonexistent"}), 2,
                 "there are no prompt templates in /nonexistent; accepted: a directory like");
  expect_refused({"optimize", "64", "64", "64", "--policy", "random", "--dry-run"}, 2,
                 "--dry-run goes with --policy llm alone");
  expect_refused({"optimize", "64", "64", "64", "--llm-url", "http://x", "--llm-model", "m"}, 2,
                 "--llm-url goes with --policy llm alone");
  expect_refused({"optimize", "64", "64", "64", "--policy", "llm", "--target", "replay:x"}, 2,
                 "accepted: a target that is a device");
  expect_refused({"index"}, 2, "nothing to index; accepted: PATH... or --query");
  expect_refused({"dataset", "sft", "--out", "x.jsonl"}, 2, "there is no archive");
}

TEST_F(LlmCli, SaysWhenNobodyAnswers) {
  expect_refused(
      optimize({"--llm-url", "http://127.0.0.1:1/v1", "--llm-model", "m", "--llm-first", "0", "--llm-requests", "3"}),
      3, "no answer from http://127.0.0.1:1/v1/chat/completions");
}

TEST_F(LlmCli, SendsNothingWhereTlsIsAskedForAndThereIsNone) {
  const ScriptedServer plain(json::array({{{"answer", "never read"}}}));
  expect_refused(
      optimize({"--llm-url", plain.url("https"), "--llm-model", "m", "--llm-first", "0", "--llm-requests", "2"}), 3,
      "no answer from " + plain.url("https") + "/chat/completions: ");
  EXPECT_TRUE(plain.requests().empty());
}

// All that an endpoint may do, on a task that ships, with the compilers, the gates and the clock that users have.
TEST_F(LlmCli, LearnsAShippedTaskFromAnEndpointThatDoesEverythingWrongFirst) {
  const fs::path candidates = fs::path(WARPSMITH_TASKS) / "softmax/candidates";
  const std::string source = *read_file(candidates / "rows.cpp");
  const auto answer = [&](const std::string& what, const std::string& instead) {
    std::string text = source;
    const auto at = text.find(what);
    EXPECT_NE(at, std::string::npos) << what;
    text.replace(at, what.size(), instead);
    return answer_with("```cpp\n" + text + "```\n```json\n" + *read_file(candidates / "rows.json") + "```\n");
  };
  const std::string good = answer("// Three passes", "// In three passes"), wrong = answer("1 / sum", "2 / sum"),
                    broken = answer("std::exp(", "std::exq(");
  const ScriptedServer server(json::array({{{"answer", "Softmax is bound by memory."}},
                                           {{"answer", wrong}},
                                           {{"status", 429}, {"headers", {{"Retry-After", "0"}}}, {"body", "later"}},
                                           {{"status", 500}, {"body", "oops"}},
                                           {{"garbage", 5 << 20}},
                                           {{"answer", good}, {"cut", 200}},
                                           {{"answer", "## Code\n```cpp\nint x;\n```\n"}},
                                           {{"answer", broken}},
                                           {{"hang", 30}},
                                           {{"answer", good}, {"piece", 11}},
                                           {{"answer", good}}}));
  const ProcessOutput output =
      run(optimize_task(fs::path(WARPSMITH_TASKS) / "softmax", server,
                        {"--no-sanitizer", "--llm-timeout", "5s", "--llm-requests", "11", "--budget", "180s"}));
  ASSERT_EQ(output.status.exit_code, 0) << output.err;
  const json result = json::parse(output.out).at(0), &models = result.at("models");
  EXPECT_EQ(server.requests().size(), 11u) << "after every fault the next prompt goes out";
  EXPECT_EQ(models["requests"], 11) << models;
  EXPECT_EQ(models["malformed"], 2) << models;
  EXPECT_EQ(result["verdicts"]["wrong"], 1) << result["verdicts"];
  EXPECT_EQ(result["verdicts"]["compile-error"], 1) << result["verdicts"];
  EXPECT_GE(result["verdicts"]["accepted"], 2) << "the task's own, and the answer";
}

TEST_F(LlmCli, OptimisesOnTheCpuFromEndToEnd) {
  const ScriptedServer server(json::array({{{"answer", "A larger tile might help."}},
                                           {{"answer", recipe_answer("cpu simd=avx2 tile=4x2 b=direct")}},
                                           {{"status", 429}, {"headers", {{"Retry-After", "0"}}}, {"body", "{key}"}},
                                           {{"answer", answer_with("```recipe\ncpu warp=1\n```\n")}},
                                           {{"answer", recipe_answer("cpu simd=avx2 tile=2x2")}, {"cut", 100}},
                                           {{"answer", recipe_answer("cpu simd=avx2 tile=2x2")}, {"piece", 7}},
                                           {{"answer", recipe_answer("cpu simd=avx2 tile=4x2 b=direct")}}}));
  const ProcessOutput output =
      run(optimize({"--llm-url", server.url(), "--llm-model", "small", "--llm-parallel", "1", "--llm-first", "1",
                    "--llm-price", "1,2", "--llm-requests", "8", "--budget", "120s", "--json"}));
  ASSERT_EQ(output.status.exit_code, 0) << output.err;
  const json result = json::parse(output.out)[0];
  EXPECT_EQ(result["tried"], 3);
  EXPECT_EQ(result["verdicts"]["accepted"], 3) << result["verdicts"];
  const json& models = result["models"];
  EXPECT_EQ(models["requests"], 8);
  EXPECT_EQ(models["malformed"], 2);
  EXPECT_EQ(models["repairs"], 2);
  EXPECT_EQ(models["repaired"], 2);
  EXPECT_GE(models["known"], 1);
  EXPECT_EQ(models["stopped"], "8 requests are used up");
  EXPECT_GT(models["cost"], 0);
  EXPECT_TRUE(fs::exists(result["conclusion"]["source"].get<std::string>()));
  EXPECT_GT(result["speedup"], 0);
  for (const json& request : server.requests()) EXPECT_EQ(request["authorization"], "Bearer sk-secret-3");
  EXPECT_EQ((output.out + output.err).find("sk-secret-3"), std::string::npos);
  std::string kept = *read_file(home_ / "data/archive.sqlite");
  if (const auto log = read_file(home_ / "data/archive.sqlite-wal")) kept += *log;
  EXPECT_NE(kept.find("cpu warp=1"), std::string::npos) << "the transcript";
  EXPECT_EQ(kept.find("sk-secret-3"), std::string::npos);

  // The same archive as training data.
  for (const char* kind : {"sft", "prompts", "pretrain"}) {
    const fs::path out = home_ / (std::string(kind) + ".jsonl");
    const ProcessOutput made = run({"dataset", kind, "--out", out.string(), "--held-out", "0"});
    EXPECT_EQ(made.status.exit_code, 0) << made.err;
    EXPECT_GT(read_file(out)->size(), 100u) << made.out;
  }
}

// A task whose own candidate is slow, so that an honest answer is a leap, which a second endpoint is asked about.
class LlmChecker : public LlmCli {
 protected:
  LlmChecker() {
    write("task.toml",
          "warpsmith_task = 1\nabout = \"y = factor * x\"\nreference = \"reference.cpp\"\ndata = [\"uniform\"]\n"
          "[[constant]]\nname = \"count\"\ntype = \"int\"\n[[input]]\nname = \"x\"\ntype = \"f32\"\nshape = "
          "[\"count\"]\n[[output]]\nname = \"y\"\ntype = \"f32\"\nshape = [\"count\"]\nexact = true\n[[setting]]\n"
          "count = 100\n[[setting]]\ncount = 333\n[[setting]]\ncount = 5000\ntimed = true\n");
    write("reference.cpp",
          "extern \"C\" void reference(const Arguments& t) { for (std::int64_t i = 0; i < t.count; ++i) t.y[i] = 2 * "
          "t.x[i]; }\n");
    write(
        "candidates/slow.cpp",
        "extern \"C\" void twice(const Arguments& t) { for (volatile int n = 0; n < 50; ++n) for (std::int64_t i = 0; "
        "i < t.count; ++i) t.y[i] = 2 * t.x[i] + 0 * n; }\n");
    write("candidates/slow.json", kDescriptor);
  }
  void write(const std::string& name, const std::string& text) const {
    fs::create_directories((home_ / "twice" / name).parent_path());
    std::ofstream(home_ / "twice" / name) << text;
  }
  // What the checker's endpoint was sent. A measurement that a neighbour disturbed is no leap: then once more.
  json asked(const std::vector<std::string>& more, json* models = nullptr) const {
    for (int attempt = 0; attempt < 4; ++attempt) {
      const std::string kernel = "// " + std::to_string(attempt) +
                                 "\nextern \"C\" void twice(const Arguments& t) { for (std::int64_t i = 0; i < "
                                 "t.count; ++i) t.y[i] = 2 * t.x[i]; }";
      const std::string answer = answer_with("```cpp\n" + kernel + "\n```\n```json\n" + kDescriptor + "\n```\n");
      const ScriptedServer server(json::array({{{"answer", answer}}}));
      const ScriptedServer checker(json::array({{{"answer", "VERDICT: honest\nIt reads x."}}}));
      std::vector<std::string> arguments = optimize_task(
          home_ / "twice", server,
          {"--checker-url", checker.url(), "--checker-model", "judge", "--budget", "60s", "--llm-requests", "2"});
      arguments.insert(arguments.end(), more.begin(), more.end());
      const ProcessOutput output = run(arguments);
      EXPECT_EQ(output.status.exit_code, 0) << output.err;
      if (output.status.exit_code != 0) break;
      if (models != nullptr) *models = json::parse(output.out).at(0).at("models");
      for (const json& request : server.requests()) EXPECT_EQ(request["authorization"], "Bearer sk-secret-3");
      const auto requests = checker.requests();
      if (!requests.empty()) return requests.front();
    }
    ADD_FAILURE() << "the checker was never asked";
    return {};
  }
  static constexpr const char* kDescriptor = R"({"warpsmith_candidate": 1, "source": "slow.cpp", "entry": "twice"})";
};

TEST_F(LlmChecker, AnotherServerIsNotSentTheKey) {
  json models;
  EXPECT_TRUE(asked({"--llm-price", "judge=1000,0"}, &models)["authorization"].is_null());
  EXPECT_GT(models["cost"], 0) << "the checker has a price";
}

TEST_F(LlmChecker, HasAKeyOfItsOwn) {
  EXPECT_EQ(asked({"--checker-key-env", "WARPSMITH_TEST_CHECKER_KEY"})["authorization"], "Bearer sk-of-the-checker");
}

TEST_F(LlmCli, PrintsThePromptAndSendsNothing) {
  std::ofstream(home_ / "notes.md") << "# Blocking\nSmall products on a CPU want cache blocking of B only.\n";
  const std::string index = (home_ / "index.sqlite").string();
  const ProcessOutput indexed = run({"index", (home_ / "notes.md").string(), "--index", index, "--quiet"});
  EXPECT_EQ(indexed.out, index + ": 1 files read (1 passages), 0 unchanged, 0 skipped\n");
  const ProcessOutput found = run({"index", "--index", index, "--query", "blocking"});
  EXPECT_NE(found.out.find("cache blocking of B only"), std::string::npos);
  // An option that may be repeated takes one value each time: what follows is the shape.
  const ProcessOutput output =
      run({"optimize", "--policy", "llm", "--llm-model", "a", "--llm-price", "1,2", "48", "40", "56", "--target", "cpu",
           "--threads", "1", "--quiet", "--dry-run", "--index", index});
  ASSERT_EQ(output.status.exit_code, 0) << output.err;
  for (const char* part : {"===== system =====", "C[48, 40] = A · B with k = 56", "| `simd` |",
                           "None yet: yours is the first.", "cache blocking of B only", "nothing was sent"}) {
    EXPECT_NE(output.out.find(part), std::string::npos) << part;
  }
}

}  // namespace
}  // namespace warpsmith::llm
