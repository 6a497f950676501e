// The command line as a user meets it: answers to bad input, exit codes, a whole small search, resuming, sharing one
// archive, interruption.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "base/file.h"
#include "base/subprocess.h"
#include "policy/embedded/transformer.h"
#include "policy/embedded/vocabulary.h"

namespace warpsmith {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSlowRecipe = "tiny tile=16x16x64 warps=1x1x1";
constexpr const char* kFastRecipe = "sm90 tile=256x128x64 stages=4";

// A table of 64x64x64, where the slow recipe takes 2 us and the fast one 1.
void write_rank_table(const fs::path& path) {
  const auto machine = nlohmann::json{{"name", "NVIDIA H200"},
                                      {"kind", "cuda"},
                                      {"compute_capability", 90},
                                      {"units", 132},
                                      {"smem_bytes_per_block", 232448}};
  const auto entry = [](const char* recipe, double cold_us) {
    return nlohmann::json{{"problem", "64x64x64 tn f16 f32"},
                          {"recipe", recipe},
                          {"kind", "accepted"},
                          {"cold_us", cold_us},
                          {"warm_us", cold_us}}
               .dump() +
           "\n";
  };
  std::ofstream(path) << nlohmann::json{{"warpsmith_replay", 1},
                                        {"machine", machine},
                                        {"target", "sm90"},
                                        {"threads", 1},
                                        {"provenance", nlohmann::json::object()}}
                             .dump()
                      << "\n"
                      << entry(kSlowRecipe, 2.0) << entry(kFastRecipe, 1.0);
}

class Cli : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "warpsmith-cli-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    home_ = pattern;
  }
  void TearDown() override { fs::remove_all(home_); }

  EnvironmentOverrides environment() const {
    // One cache for the whole run of the tests, so that equal candidates compile once; data apart for each test.
    return {{"WARPSMITH_DATA", (home_ / "data").string()},
            {"WARPSMITH_CACHE", (fs::temp_directory_path() / "warpsmith-cli-test-cache").string()}};
  }

  ProcessRequest request(const std::vector<std::string>& arguments) const {
    ProcessRequest wanted;
    wanted.argv = {WARPSMITH_CLI};
    wanted.argv.insert(wanted.argv.end(), arguments.begin(), arguments.end());
    wanted.environment = environment();
    wanted.limits.wall_seconds = 120;
    return wanted;
  }

  ProcessOutput run(const std::vector<std::string>& arguments) const {
    const auto output = run_process(request(arguments));
    EXPECT_TRUE(output.ok()) << output.error().message;
    return *output;
  }

  // Bad input: exit code, nothing on stdout, exactly one line on stderr that contains `part`.
  void expect_refused(const std::vector<std::string>& arguments, int code, const std::string& part) const {
    const ProcessOutput output = run(arguments);
    std::string shown;
    for (const std::string& argument : arguments) shown += argument + " ";
    EXPECT_EQ(output.status.exit_code, code) << shown << output.err << output.status.describe();
    EXPECT_EQ(output.out, "") << shown;
    EXPECT_NE(output.err.find(part), std::string::npos) << shown << "-> " << output.err;
    EXPECT_EQ(std::count(output.err.begin(), output.err.end(), '\n'), 1) << shown << "-> " << output.err;
    EXPECT_EQ(output.err.rfind("warpsmith: ", 0), 0u) << output.err;
  }

  std::vector<std::string> small_search(const std::vector<std::string>& more = {}, const char* candidates = "3") const {
    std::vector<std::string> arguments = {"optimize",  "48",       "40",     "56",           "--target",
                                          "cpu",       "--budget", "60s",    "--candidates", candidates,
                                          "--threads", "1",        "--json", "--quiet"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }

  fs::path home_;
};

TEST_F(Cli, RefusesBadShapes) {
  expect_refused({"optimize", "0", "64", "64"}, 2, "size M = 0 is out of range; accepted: 1 to");
  expect_refused({"optimize", "64", "-3", "64"}, 2, "-3");
  expect_refused({"optimize", "64", "64", "99999999999999999999"}, 2, "out of range");
  expect_refused({"optimize", "64", "sixty", "64"}, 2, "'sixty' is not a whole number");
  expect_refused({"optimize", "64", "64"}, 2, "is not a shape; accepted: M N K");
  expect_refused({"optimize"}, 2, "no shape given");
  expect_refused({"optimize", "1000000", "64", "1000000"}, 2, "matrix A");
  expect_refused({"optimize", "--mnk", "64_64_64_64"}, 2, "is not a shape");
}

TEST_F(Cli, TrainRefusesWhatItCannotDo) {
  expect_refused({"train"}, 2, "--output is missing");
  const std::string run = (home_ / "run").string();
  expect_refused({"train", "--output", run, "--stage", "final"}, 2, "accepted: supervised, self, contrastive, all");
  expect_refused({"train", "--evaluate"}, 2, "--env is missing; accepted: replay:FILE, cpu, sm80, sm90");
  expect_refused({"train", "--evaluate", "--env", "cpu"}, 2, "needs a recorded table");
  expect_refused({"train", "--evaluate", "--env", "replay:/nonexistent", "--arm", "magic"}, 2, "unknown arm 'magic'");
  expect_refused({"train", "--config", "/nonexistent.json", "--print-config"}, 3, "/nonexistent.json");
  expect_refused({"train", "--output", run, "--env", "replay:/nonexistent", "--torch-module", "x"}, 3, "/nonexistent");
}

TEST_F(Cli, ComparesNoModelThatMayHaveBeenTaughtWhatIsHeldOut) {
  const fs::path table = home_ / "table.jsonl", file = home_ / "model.safetensors";
  write_rank_table(table);
  const auto& vocabulary = embedded::Vocabulary::standard();
  embedded::Model model;
  model.shape.vocabulary = vocabulary.size();
  model.shape.layers = 1;
  model.shape.width = model.shape.hidden = 16;
  model.shape.heads = 2;
  model.weights = embedded::initial_weights(model.shape, vocabulary, 1);
  model.version = vocabulary.version();
  model.metadata = {{"held_out", "000000000000"}};
  ASSERT_TRUE(embedded::save_model(file, model, embedded::TensorFormat::f32).ok());
  expect_refused({"train", "--evaluate", "--env", "replay:" + table.string(), "--arm", "m=" + file.string()}, 2,
                 "other problems held out");
}

TEST_F(Cli, BenchesAWisdomFilesKernels) {
  const std::string wisdom = (home_ / "cpu.jsonl").string();
  const std::vector<std::string> tune = {
      "tune",     "24",  "40",          "56", "--target",       "cpu",      "--threads", "1",      "--layout", "nn",
      "--budget", "60s", "--per-shape", "2",  "--no-baselines", "--wisdom", wisdom,      "--quiet"};
  ASSERT_EQ(run(tune).status.exit_code, 0);
  std::ifstream file(wisdom);
  std::string header, line;
  ASSERT_TRUE(std::getline(file, header) && std::getline(file, line));
  const auto entry = nlohmann::json::parse(line);
  const std::vector<std::string> bench = {"bench", "24",       "40", "56",       "--target", "cpu",      "--threads",
                                          "1",     "--layout", "nn", "--verify", "--json",   "--wisdom", wisdom};
  const ProcessOutput output = run(bench);
  ASSERT_EQ(output.status.exit_code, 0) << output.err;
  EXPECT_EQ(std::count(output.out.begin(), output.out.end(), '\n'), 1) << output.out;
  // The row names what differs from defaults, wisdom names everything.
  std::istringstream words(nlohmann::json::parse(output.out).at("recipe").get<std::string>());
  const std::string tuned = " " + entry.at("recipe").get<std::string>() + " ";
  for (std::string word; words >> word;) EXPECT_NE(tuned.find(" " + word + " "), std::string::npos) << word << tuned;
  std::ofstream(wisdom) << nlohmann::json::parse(header).patch(
                               nlohmann::json::parse(R"([{"op": "replace", "path": "/machine", "value": "Other"}])"))
                        << "\n";
  expect_refused(bench, 2, "is of Other; accepted: of ");
  expect_refused({"bench", "24", "40", "56", "--target", "cpu", "--wisdom", "/nonexistent"}, 3, "/nonexistent");
}

TEST_F(Cli, RefusesUnknownWords) {
  expect_refused({"optimize", "64", "64", "64", "--target", "sm42"}, 2, "accepted: auto, cpu, sm80, sm90, replay:FILE");
  expect_refused({"optimize", "64", "64", "64", "--policy", "oracle"}, 2, "accepted: random, evolution");
  expect_refused({"optimize", "64", "64", "64", "--layout", "xy"}, 2, "accepted: tn, nn, tt, nt, both");
  expect_refused({"optimize", "64", "64", "64", "--type", "f64"}, 2, "accepted: f16, bf16");
  expect_refused({"optimize", "64", "64", "64", "--type", "bf16", "--acc", "f16"}, 2,
                 "accepted for --acc f16: --type f16");
  expect_refused({"optimize", "64", "64", "64", "--ld", "64,64"}, 2, "accepted: LDA,LDB,LDC");
  expect_refused({"optimize", "64", "64", "64", "--ld", "0,63,0"}, 2, "63 of B is smaller than its 64 columns");
  expect_refused({"optimize", "64", "64", "64", "--budget", "soon"}, 2, "is not a duration");
  expect_refused({"optimize", "64", "64", "64", "--budget", "-5s"}, 2, "duration");
  expect_refused({"optimize", "64", "64", "64", "--threads", "0"}, 2, "--threads '0'; accepted: 1 to");
  expect_refused({"optimize", "64", "64", "64", "--nonsense"}, 2, "--nonsense");
  expect_refused({"bench", "64", "64", "64", "--recipe", "cpu nonsense=1"}, 2, "unknown knob 'nonsense'");
  expect_refused({"bench", "64", "64", "64", "--recipe", "gpu"}, 2, "unknown family 'gpu'");
  expect_refused({"bench", "--grid", "other"}, 2, "accepted: cuda-l2");
  expect_refused({"bench", "--candidate", "/nonexistent/x.cu", "64", "64", "64"}, 2,
                 "/nonexistent/x.json: no such file");
  expect_refused({"bench", "--candidate", "x.o", "64", "64", "64"}, 2, "named by its .cu or its .json");
  expect_refused({"bench", "--shapes", "/nonexistent/shapes"}, 3, "/nonexistent/shapes");
  expect_refused({"info", "--knobs", "none"}, 2, "unknown family 'none'");
  expect_refused({"frobnicate"}, 2, "frobnicate");
  expect_refused({}, 2, "subcommand");
  expect_refused({"optimize", "64", "64", "64", "--target", "replay:/nonexistent"}, 3, "/nonexistent");
}

TEST_F(Cli, RefusesBadTimingOptions) {
  const auto refused = [this](std::vector<std::string> options, const std::string& words) {
    options.insert(options.begin(), {"bench", "64", "64", "64", "--target", "cpu"});
    expect_refused(options, 2, words);
  };
  refused({"--mode", "batch"}, "accepted: offline, call, server");
  refused({"--qps", "10"}, "--qps needs --mode server");
  refused({"--mode", "call", "--arrivals", "10"}, "--arrivals needs --mode server");
  refused({"--mode", "server", "--qps", "0"}, "accepted: more than 0, up to");
  refused({"--mode", "server", "--qps", "nan"}, "accepted: more than 0, up to");
  refused({"--mode", "server", "--arrivals", "0"}, "--arrivals 0; accepted: 1 to");
  refused({"--protocol", "cuda-l3"}, "accepted: cuda-l2");
  refused({"--self", "--verify"}, "--self and --verify do not go together");
  refused({"--repeat-processes", "1"}, "accepted: 2 to");
  refused({"--throughput", "soon"}, "is not a duration");
  refused({"--self", "--output", "x.json"}, "--self prints lines");
  refused({"--exhaustive"}, "accepted with a CUDA target");
  refused({"--exhaustive", "--exhaustive-time", "x"}, "is not a duration");
}

TEST_F(Cli, RefusesBadArchives) {
  const fs::path garbage = home_ / "garbage.sqlite";
  std::ofstream(garbage) << std::string(8192, 'x');
  expect_refused(small_search({"--archive", garbage.string()}), 2, garbage.string());
  expect_refused(small_search({"--archive", "/proc/nowhere/archive.sqlite"}), 3, "/proc/nowhere");
  expect_refused(small_search({"--archive", home_.string()}), 2, home_.string());
}

// A file-size limit stands for the full disk: the archive cannot grow.
TEST_F(Cli, SaysSoWhenTheDiskIsFull) {
  ProcessRequest wanted = request(small_search());
  wanted.limits.file_bytes = 4096;
  const auto output = run_process(wanted);
  ASSERT_TRUE(output.ok());
  EXPECT_EQ(output->status.exit_code, 3) << output->status.describe() << output->err;
  EXPECT_NE(output->err.find("archive.sqlite"), std::string::npos) << output->err;
  EXPECT_EQ(std::count(output->err.begin(), output->err.end(), '\n'), 1) << output->err;
}

TEST_F(Cli, SaysSoWhenThereIsNoCompiler) {
  ProcessRequest wanted = request(small_search());
  wanted.environment.emplace_back("WARPSMITH_CXX", "/nonexistent/c++");
  const auto output = run_process(wanted);
  ASSERT_TRUE(output.ok());
  EXPECT_EQ(output->status.exit_code, 3) << output->err;
  EXPECT_NE(output->err.find("/nonexistent/c++"), std::string::npos) << output->err;
}

TEST_F(Cli, HelpNamesEveryCommand) {
  const ProcessOutput output = run({"--help"});
  EXPECT_EQ(output.status.exit_code, 0);
  for (const char* command : {"optimize", "tune", "sweep", "bench", "rank", "info", "dataset"}) {
    EXPECT_NE(output.out.find(command), std::string::npos) << command;
    const ProcessOutput help = run({command, "--help"});
    EXPECT_EQ(help.status.exit_code, 0) << command;
    EXPECT_NE(help.out.find("Options"), std::string::npos) << help.out;
  }
}

TEST_F(Cli, RanksWithoutADevice) {
  const ProcessOutput output =
      run({"rank", "512", "256", "4096", "--layout", "both", "--machine", "h200", "--count", "5", "--json"});
  ASSERT_EQ(output.status.exit_code, 0) << output.err;
  std::istringstream lines(output.out);
  int problems = 0;
  for (std::string line; std::getline(lines, line); ++problems) {
    const auto json = nlohmann::json::parse(line);
    EXPECT_EQ(json["machine"], "NVIDIA H200");
    ASSERT_EQ(json["recipes"].size(), 5u);
    double last_us = 0;
    for (const auto& row : json["recipes"]) {
      EXPECT_GE(row["time_us"].get<double>(), last_us);
      last_us = row["time_us"].get<double>();
    }
    // What it ranks can be asked for by name, and costs the same.
    const std::string first = json["recipes"][0]["recipe"].get<std::string>();
    const ProcessOutput again = run({"rank", "512", "256", "4096", "--layout", problems == 0 ? "nn" : "tn", "--machine",
                                     "h200", "--recipe", first, "--json"});
    ASSERT_EQ(again.status.exit_code, 0) << again.err;
    EXPECT_EQ(nlohmann::json::parse(again.out)["recipes"][0]["time_us"], json["recipes"][0]["time_us"]);
  }
  EXPECT_EQ(problems, 2);
}

TEST_F(Cli, SweepsDeclaredSpacesIntoATable) {
  const fs::path shapes = home_ / "shapes.txt", recorded = home_ / "recorded.jsonl", spaces = home_ / "spaces.jsonl",
                 archive = home_ / "sweep.sqlite", table = home_ / "table.jsonl";
  std::ofstream(shapes) << "64 64 128\n100 1152 896\n";
  std::ofstream(recorded) << nlohmann::json{{"warpsmith_replay", 1},
                                            {"machine",
                                             {{"name", "NVIDIA H200"},
                                              {"kind", "cuda"},
                                              {"compute_capability", 90},
                                              {"units", 132},
                                              {"smem_bytes_per_block", 232448}}},
                                            {"target", "sm90"}}
                                 .dump()
                          << "\n"
                          << nlohmann::json{{"problem", "64x96x64 tn f16 f32"},
                                            {"recipe", "sm90 tile=64x24x64 consumers=1 stages=7"},
                                            {"kind", "accepted"},
                                            {"cold_us", 2.0}}
                                 .dump()
                          << "\n";
  const ProcessOutput declared = run({"dataset", "spaces", "--shapes", shapes.string(), "--winners", recorded.string(),
                                      "--recipes", "40", "--out", spaces.string()});
  ASSERT_EQ(declared.status.exit_code, 0) << declared.err;
  EXPECT_NE(declared.out.find("40 recipes of each of 2 problems"), std::string::npos) << declared.out;
  // The table lacks all that was declared; that is their verdict.
  const std::string target = "replay:" + recorded.string();
  const auto sweep = [&](const fs::path& file) {
    return run({"sweep", "--spaces", file.string(), "--target", target, "--archive", archive.string(), "--quiet"});
  };
  const ProcessOutput first = sweep(spaces), second = sweep(spaces);
  ASSERT_EQ(first.status.exit_code, 0) << first.err;
  EXPECT_EQ(first.out.find("80 tried"), 0u) << first.out;
  EXPECT_NE(first.out.find("2 of 2 problems measured whole\n"), std::string::npos) << first.out;
  EXPECT_EQ(second.out.find("0 tried"), 0u) << second.out;
  const ProcessOutput exported =
      run({"dataset", "replay", "--archive", archive.string(), "--spaces", spaces.string(), "--out", table.string()});
  ASSERT_EQ(exported.status.exit_code, 0) << exported.err;
  EXPECT_NE(exported.out.find("80 measurements of 2 problems\nheld out: 2 problems, 2 measured whole\n"),
            std::string::npos)
      << exported.out;
  EXPECT_EQ(sweep(recorded).status.exit_code, 2);
}

// Entries of 64x64x64 with the fast recipe and of a near shape with the slow one.
void write_rank_wisdom(const fs::path& path, const char* machine) {
  const auto entry = [](const char* problem, const char* recipe) {
    return nlohmann::json{{"problem", problem}, {"recipe", recipe},    {"source_hash", ""},
                          {"cold_us", 1.0},     {"warm_us", 1.0},      {"gates_passed", 16},
                          {"date", ""},         {"commit", ""},        {"provenance", nlohmann::json::object()},
                          {"baseline_us", 2.0}, {"baseline", "cublas"}}
               .dump() +
           "\n";
  };
  std::ofstream(path) << nlohmann::json{{"warpsmith_wisdom", 1},
                                        {"machine", machine},
                                        {"compute_capability", 90},
                                        {"units", 132},
                                        {"target", "sm90"},
                                        {"threads", 1},
                                        {"versions", nlohmann::json::object()}}
                             .dump()
                      << "\n"
                      << entry("64x64x64 tn f16 f32", kFastRecipe) << entry("64x64x96 tn f16 f32", kSlowRecipe);
}

TEST_F(Cli, RankJudgesTheLibrarysChoice) {
  const fs::path table = home_ / "table.jsonl", wisdom = home_ / "wisdom.jsonl";
  write_rank_table(table);
  write_rank_wisdom(wisdom, "NVIDIA H200");
  const ProcessOutput output = run({"rank", "--against", table.string(), "--wisdom", wisdom.string(), "--json"});
  ASSERT_EQ(output.status.exit_code, 0) << output.err;
  const auto rows = nlohmann::json::parse(output.out)["choices"];
  ASSERT_EQ(rows.size(), 4u);  // two ways, of all and of the bucket
  for (const auto& row : rows) {
    EXPECT_EQ(row["problems"].get<int>() + row["unmeasured"].get<int>(), 1) << row;
    EXPECT_EQ(row["cublaslt"], 0) << row;
  }
  EXPECT_EQ(rows[0]["way"], "expectation");
  // The problem's own entry would be the fast recipe.
  EXPECT_EQ(rows[2]["way"], "nearest");
  EXPECT_EQ(rows[2]["problems"], 1);
  EXPECT_DOUBLE_EQ(rows[2]["best_over_first"].get<double>(), 0.5);
  EXPECT_EQ(rows[3]["log2_mnk"], "< 24");

  write_rank_wisdom(wisdom, "NVIDIA H100");
  expect_refused({"rank", "--against", table.string(), "--wisdom", wisdom.string()}, 2,
                 "is of another machine or target");
}

TEST_F(Cli, TakesReferencesFromASurvey) {
  const fs::path table = home_ / "table.jsonl", archive = home_ / "archive.sqlite", survey = home_ / "grid-offline.csv",
                 again = home_ / "again.jsonl";
  write_rank_table(table);
  ASSERT_EQ(run({"dataset", "import", "--replay", table.string(), "--archive", archive.string()}).status.exit_code, 0);
  std::ofstream(survey) << "m,n,k,lt_auto_nn_us,lt_auto_tn_us\n64,64,64,2.5,1.5\n64,64,128,,9\n";
  const std::vector<std::string> command = {"dataset", "replay",       "--archive",   archive.string(),
                                            "--out",   again.string(), "--references"};
  auto with = command;
  with.push_back(survey.string());
  const ProcessOutput output = run(with);
  ASSERT_EQ(output.status.exit_code, 0) << output.err;
  std::ifstream lines(again);
  std::string header;
  std::getline(lines, header);
  EXPECT_EQ(nlohmann::json::parse(header).at("references"), (nlohmann::json{{"64x64x64 tn f16 f32", 1.5}}));
  with.back() = table.string();
  EXPECT_EQ(run(with).status.exit_code, 2);
}

TEST_F(Cli, RankComparesWithMeasurements) {
  const fs::path table = home_ / "table.jsonl";
  write_rank_table(table);
  const ProcessOutput output = run({"rank", "--against", table.string(), "--json"});
  ASSERT_EQ(output.status.exit_code, 0) << output.err;
  const auto rows = nlohmann::json::parse(output.out)["agreement"];
  ASSERT_EQ(rows.size(), 2u);  // all, and its bucket
  EXPECT_EQ(rows[0]["recipes"], 2);
  EXPECT_DOUBLE_EQ(rows[0]["best_over_first"].get<double>(), 0.5);  // the made-up table has the model wrong
  EXPECT_DOUBLE_EQ(rows[0]["best_over_top16"].get<double>(), 1.0);
}

TEST_F(Cli, RefusesBadRanks) {
  expect_refused({"rank", "64", "64", "64", "--machine", "h2000"}, 2, "accepted: h200");
  expect_refused({"rank", "64", "64", "64", "--machine", "h200", "--count", "0"}, 2, "--count 0; accepted: 1 or more");
  expect_refused({"rank", "64", "64", "64", "--machine", "h200", "--target", "cpu"}, 2,
                 "accepted for --target: sm90, sm80");
  expect_refused({"rank", "64", "64", "64", "--machine", "h200", "--recipe", "cpu"}, 2, "not the cpu family");
  expect_refused({"rank", "64", "64", "64", "--machine", "h200", "--recipe", "sm90 split=16"}, 2, "is not legal for");
  expect_refused({"rank", "64", "64", "64", "--against", "x"}, 2, "give no shape");
  expect_refused({"rank", "--against", "/nonexistent"}, 3, "/nonexistent");
  expect_refused({"rank", "64", "64", "64", "--wisdom", "x"}, 2, "give --against too");
}

TEST_F(Cli, InfoDescribesTheMachine) {
  const ProcessOutput output = run({"info", "--json"});
  ASSERT_EQ(output.status.exit_code, 0) << output.err;
  const auto json = nlohmann::json::parse(output.out);
  EXPECT_TRUE(json.at("devices").at(0).at("works").get<bool>());
  EXPECT_GT(json.at("devices").at(0).at("machine").at("peak_gflops").get<double>(), 0);
  const ProcessOutput knobs = run({"info", "--knobs", "all"});
  for (const char* family : {"`cpu`", "`sm90`", "`sm80`", "`tiny`", "`skinny`"}) {
    EXPECT_NE(knobs.out.find(family), std::string::npos) << family;
  }
}

TEST_F(Cli, SearchesResumesAndWritesTheKernel) {
  const ProcessOutput first = run(small_search());
  ASSERT_EQ(first.status.exit_code, 0) << first.err;
  const auto result = nlohmann::json::parse(first.out).at(0);
  EXPECT_EQ(result.at("tried"), 3);
  EXPECT_EQ(result.at("resumed"), 0);
  EXPECT_GT(result.at("time_us").get<double>(), 0);
  EXPECT_GT(result.at("speedup").get<double>(), 0);
  EXPECT_EQ(result.at("provenance").at("mode"), "offline");
  EXPECT_FALSE(result.at("provenance").at("commit").get<std::string>().empty());
  EXPECT_EQ(result.at("provenance").at("date").get<std::string>().size(), std::string("2026-01-31T12:00:00Z").size());
  for (const auto& gate : result.at("conclusion").at("gates")) EXPECT_TRUE(gate.at("passed").get<bool>()) << gate;
  const fs::path source = result.at("conclusion").at("source").get<std::string>();
  EXPECT_TRUE(fs::exists(source)) << source;
  EXPECT_TRUE(fs::exists(fs::path(source).replace_extension(".json")));

  const auto again = nlohmann::json::parse(run(small_search()).out).at(0);
  EXPECT_GE(again.at("resumed").get<int>(), 3);
}

TEST_F(Cli, SearchesWithoutAFinal) {
  const ProcessOutput output = run(small_search({"--no-final"}));
  ASSERT_EQ(output.status.exit_code, 0) << output.err;
  const auto result = nlohmann::json::parse(output.out).at(0);
  EXPECT_EQ(result.at("tried"), 3);
  EXPECT_GT(result.at("best_while_searching").at("cold_us").get<double>(), 0);
  EXPECT_FALSE(result.contains("conclusion"));
  EXPECT_FALSE(fs::exists(home_ / "data/kernels"));
}

TEST_F(Cli, RefusesBadTuning) {
  expect_refused({"tune"}, 2, "no shapes given; accepted: M N K, --shapes FILE or --grid cuda-l2");
  expect_refused({"tune", "--grid", "other"}, 2, "accepted: cuda-l2");
  expect_refused({"tune", "64", "64", "64", "--grid", "cuda-l2"}, 2, "give the shapes once");
  expect_refused({"tune", "64", "64", "64", "--policy", "oracle"}, 2, "accepted: random, evolution");
  expect_refused({"tune", "64", "64", "64", "--final-budget", "soon"}, 2, "is not a duration");
  expect_refused({"tune", "64", "64", "64", "--target", "cpu", "--gpus", "all"}, 2, "--gpus goes with a CUDA target");
  expect_refused({"tune", "64", "64", "64", "--target", "sm90", "--gpus", "0,0"}, 2,
                 "accepted: all, or device numbers");
  const fs::path foreign = home_ / "foreign.jsonl";
  std::ofstream(foreign) << "{}\n";
  expect_refused({"tune", "64", "64", "64", "--target", "cpu", "--wisdom", foreign.string()}, 2,
                 ":1: is no header of a wisdom file");
}

// Two shapes, one layout, a few recipes each; then the same command with --resume, which measures nothing again.
TEST_F(Cli, TunesShapesAndResumes) {
  const fs::path shapes = home_ / "shapes", csv = home_ / "grid.csv", replay = home_ / "replay.jsonl",
                 wisdom = home_ / "wisdom.jsonl";
  std::ofstream(shapes) << "48x40x56  # tiny\n32 40 24\n";
  const std::vector<std::string> command = {"tune",
                                            "--shapes",
                                            shapes.string(),
                                            "--target",
                                            "cpu",
                                            "--threads",
                                            "1",
                                            "--layout",
                                            "nn",
                                            "--budget",
                                            "60s",
                                            "--per-shape",
                                            "2",
                                            "--effort",
                                            "10ms",
                                            "--csv",
                                            csv.string(),
                                            "--wisdom",
                                            wisdom.string(),
                                            "--export-replay",
                                            replay.string(),
                                            "--json",
                                            "--quiet",
                                            "--resume"};
  const auto lines = [](const std::string& text) {
    std::vector<nlohmann::json> parsed;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) parsed.push_back(nlohmann::json::parse(line));
    return parsed;
  };
  const ProcessOutput first = run(command);
  ASSERT_EQ(first.status.exit_code, 0) << first.err;
  const auto rows = lines(first.out);
  ASSERT_EQ(rows.size(), 4u) << first.out;  // search, two problems, summary
  EXPECT_EQ(rows[0].at("search").at("tried"), 4);
  EXPECT_EQ(rows[0].at("search").at("covered"), 2);
  for (const std::size_t i : {1, 2}) {
    EXPECT_GT(rows[i].at("speedup").get<double>(), 0);
    EXPECT_EQ(rows[i].at("verdict").at("kind"), "accepted");
    EXPECT_FALSE(rows[i].at("provenance").at("commit").get<std::string>().empty());
  }
  const std::string table = *read_file(csv);
  EXPECT_NE(table.find("# 2 of 2 shapes\n"), std::string::npos);
  EXPECT_NE(table.find("\nm,n,k,ours_us,ours_nn_us,ours_tn_us,ours_warm_us,ours_pdl_us,lt_auto_us,"),
            std::string::npos);
  EXPECT_NE(table.find("\n48,40,56,"), std::string::npos);
  const auto entries = lines(*read_file(wisdom));
  ASSERT_EQ(entries.size(), 3u);
  EXPECT_EQ(entries[0].at("target"), "cpu");
  EXPECT_EQ(entries[1].at("problem"), "32x40x24 nn f16 f32");

  const ProcessOutput second = run(command);
  ASSERT_EQ(second.status.exit_code, 0) << second.err;
  const auto again = lines(second.out);
  ASSERT_EQ(again.size(), 4u);
  EXPECT_EQ(again[0].at("search").at("tried"), 0);
  EXPECT_GE(again[0].at("search").at("resumed").get<int>(), 4);
  EXPECT_EQ(again[1].at("conclusion"), rows[1].at("conclusion"));
  EXPECT_EQ(*read_file(wisdom), [&] {
    std::string text;
    for (const auto& entry : entries) text += entry.dump() + "\n";
    return text;
  }());

  // The exported table is a target of its own.
  const ProcessOutput replayed =
      run({"tune", "48", "40", "56", "--layout", "nn", "--target", "replay:" + replay.string(), "--per-shape", "4",
           "--wisdom", (home_ / "none").string(), "--json", "--quiet"});
  ASSERT_EQ(replayed.status.exit_code, 0) << replayed.err;
  EXPECT_EQ(lines(replayed.out)[0].at("search").at("covered"), 1);
  EXPECT_FALSE(fs::exists(home_ / "none"));
}

TEST_F(Cli, TwoRunsShareOneArchive) {
  std::vector<ProcessOutput> outputs(2);
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < 2; ++i) {
      threads.emplace_back([&, i] { outputs[i] = run(small_search({"--seed", std::to_string(i + 1)})); });
    }
  }
  for (const ProcessOutput& output : outputs) EXPECT_EQ(output.status.exit_code, 0) << output.err;
  const auto after = nlohmann::json::parse(run(small_search({}, "1")).out).at(0);
  EXPECT_GE(after.at("resumed").get<int>(), 6);
}

TEST_F(Cli, InterruptKeepsWhatWasMeasured) {
  ChildProcess::Options options;
  options.argv =
      request({"optimize", "48", "40", "56", "--target", "cpu", "--threads", "1", "--budget", "60s", "--quiet"}).argv;
  options.environment = environment();
  auto child = ChildProcess::spawn(options);
  ASSERT_TRUE(child.ok()) << child.error().message;
  const auto recorded = [this] { return nlohmann::json::parse(run({"info", "--json"}).out).at("attempts").get<int>(); };
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(55);
  while (recorded() == 0 && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
  }
  ::kill(child->pid(), SIGINT);
  const ExitStatus status = child->wait();
  EXPECT_EQ(status.exit_code, 130) << status.describe();
  const auto after = nlohmann::json::parse(run(small_search({}, "1")).out).at(0);
  EXPECT_GT(after.at("resumed").get<int>(), 0);
}

// The studies on a problem so small that they take a second or two.
TEST_F(Cli, BenchStudiesPrintARowAProblem) {
  const std::vector<std::string> common = {"bench", "32",      "48", "64",       "--target", "cpu",   "--threads",
                                           "1",     "--first", "1",  "--effort", "20ms",     "--json"};
  const auto row_of = [&](std::vector<std::string> options) {
    options.insert(options.begin(), common.begin(), common.end());
    const ProcessOutput output = run(options);
    EXPECT_EQ(output.status.exit_code, 0) << output.err;
    EXPECT_EQ(std::count(output.out.begin(), output.out.end(), '\n'), 1) << output.out;
    return nlohmann::json::parse(output.out, nullptr, false);
  };
  const auto self = row_of({"--self"});
  EXPECT_NEAR(self.at("ratio").get<double>(), 1, 0.5);
  const auto processes = row_of({"--repeat-processes", "2"});
  EXPECT_EQ(processes.at("ratios").size(), 2u);
  EXPECT_GE(processes.at("spread").get<double>(), 0);
  const auto throughput = row_of({"--throughput", "100ms"});
  EXPECT_GT(throughput.at("evaluations_per_s").get<double>(), 0.1);
  const auto server = row_of({"--mode", "server", "--qps", "1000", "--arrivals", "8"});
  const auto& subject = server.at("conclusion").at("subjects").at(0);
  EXPECT_EQ(subject.at("mode"), "server");
  EXPECT_EQ(subject.at("cold").at("samples"), 8);
  EXPECT_EQ(subject.at("server").at("qps"), 1000);
  const auto both = row_of({"--protocol", "cuda-l2"});
  EXPECT_TRUE(both.at("cuda_l2").at("passes").get<bool>());
  EXPECT_FALSE(both.at("cuda_l2").at("ratio").empty());
  EXPECT_TRUE(both.contains("speedup_any_layout"));
}

// A free-form candidate is device code: errors in its files come first, then the CPU target says no.
TEST_F(Cli, FreeFormCandidatesAreForCudaTargets) {
  const std::string good =
      R"({"warpsmith_candidate": 1, "kernels": [{"entry": "f", "grid": [1], "block": [1], "arguments": [{"pointer": "c"}]}]})";
  std::ofstream(home_ / "good.json") << good;
  std::ofstream(home_ / "good.cu") << "extern \"C\" __global__ void f(void* c) {}\n";
  std::ofstream(home_ / "bad.json") << R"({"warpsmith_candidate": 1, "kernals": []})";
  const std::string candidate = (home_ / "good.cu").string();
  expect_refused({"bench", "--candidate", (home_ / "bad.json").string(), "64", "64", "64"}, 2,
                 "did you mean 'kernels'?");
  expect_refused({"bench", "--target", "cpu", "--candidate", candidate, "64", "64", "64"}, 2, "takes recipes only");
  expect_refused({"bench", "--candidate", candidate, "--candidate", candidate, "64", "64", "64"}, 2,
                 "names that differ");
  expect_refused({"bench", "--candidate", candidate, "--recipe", "cpu", "64", "64", "64"}, 2, "excludes");
}

}  // namespace
}  // namespace warpsmith
