// Reading task.toml: what ships is read, and every mistake is named with its place.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "base/file.h"
#include "task/task.h"

namespace warpsmith::task {
namespace {

constexpr const char* kGood = R"(warpsmith_task = 1
about = "y = factor * x"
reference = "reference.cpp"
data = ["uniform", "special"]
[[constant]]
name = "count"
type = "int"
[[constant]]
name = "factor"
type = "float"
[[input]]
name = "x"
type = "f32"
shape = ["count", "2 * count"]
[[output]]
name = "y"
type = "f16"
shape = ["count", "2 * count"]
relative = 1e-3
[[setting]]
count = 3
factor = 0.5
[[setting]]
count = 4
factor = 1.5
[[setting]]
count = 5
factor = 2
timed = true
)";

class LoadTest : public testing::Test {
 protected:
  void SetUp() override {
    directory_ = std::filesystem::temp_directory_path() / ("warpsmith_task_load_" + std::to_string(getpid())) / "scale";
    std::filesystem::create_directories(directory_);
    write("reference.cpp", "extern \"C\" void reference(const Arguments&) {}\n");
  }
  void TearDown() override { std::filesystem::remove_all(directory_.parent_path()); }

  void write(const std::string& name, const std::string& text) const {
    ASSERT_TRUE(write_file_atomic(directory_ / name, text).ok());
  }

  // kGood with `from` replaced by `to`, loaded; what is said of it.
  std::string complaint(const std::string& from, const std::string& to) const {
    std::string text = kGood;
    const std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
    write("task.toml", text);
    const auto loaded = load_task(directory_);
    if (loaded.ok()) return "accepted";
    EXPECT_EQ(loaded.error().kind, ErrorKind::bad_input);
    EXPECT_EQ(loaded.error().message.find('\n'), std::string::npos);
    return loaded.error().message;
  }

  std::filesystem::path directory_;
};

#define EXPECT_SAYS(from, to, words)                                \
  do {                                                              \
    const std::string said = complaint(from, to);                   \
    EXPECT_NE(said.find(words), std::string::npos) << said;         \
    EXPECT_NE(said.find("task.toml: "), std::string::npos) << said; \
  } while (false)

TEST_F(LoadTest, ReadsATask) {
  write("task.toml", kGood);
  const auto task = load_task(directory_ / "task.toml");
  ASSERT_TRUE(task.ok()) << task.error().message;
  EXPECT_EQ(task->name, "scale");
  EXPECT_EQ(task->identity.substr(0, 6), "scale ");
  ASSERT_EQ(task->settings.size(), 3U);
  EXPECT_EQ(task->timed_on(Target::cpu), 2);
  EXPECT_EQ(describe(*task, task->settings[1]), "count=4 factor=1.5");
  const Instance instance = instance_of(*task, 1);
  ASSERT_EQ(instance.tensors.size(), 2U);
  EXPECT_EQ(instance.tensors[0].elements, 32);
  EXPECT_EQ(instance.tensors[0].bytes, 128);
  EXPECT_EQ(instance.tensors[1].bytes, 64);
  EXPECT_EQ(instance.traffic_bytes, 192);
  const SlabLayout layout = slab_of(instance, 100);
  EXPECT_EQ(layout.tensors[0] % 256, 0);
  EXPECT_GE(layout.tensors[1], layout.tensors[0] + 128 + 4096);
  EXPECT_GE(layout.bytes, layout.workspace + 100 + 4096);
}

TEST_F(LoadTest, AnEditChangesTheIdentity) {
  write("task.toml", kGood);
  const auto before = load_task(directory_);
  write("reference.cpp", "extern \"C\" void reference(const Arguments&) { }\n");
  const auto after = load_task(directory_);
  ASSERT_TRUE(before.ok() && after.ok());
  EXPECT_NE(before->identity, after->identity);
}

TEST_F(LoadTest, NamesEveryMistakeWithItsPlace) {
  EXPECT_SAYS("warpsmith_task = 1", "", "warpsmith_task = 1 is missing");
  EXPECT_SAYS("warpsmith_task = 1", "warpsmith_task = 2", "line 1: /warpsmith_task: unknown version; accepted: 1");
  EXPECT_SAYS("about =", "abuot =", "line 2: /abuot: unknown field 'abuot'; did you mean 'about'?");
  EXPECT_SAYS("reference.cpp", "../reference.cpp", "/reference: expected the name of a .cpp or .cu file");
  EXPECT_NE(complaint("reference.cpp", "elsewhere.cpp").find("elsewhere.cpp: no such file"), std::string::npos);
  EXPECT_SAYS("\"special\"", "\"spezial\"", "/data/1: unknown distribution 'spezial'; did you mean 'special'?");
  EXPECT_SAYS("type = \"int\"", "type = \"whole\"", "/constant/0/type: unknown word 'whole'");
  EXPECT_SAYS("name = \"factor\"", "name = \"count\"", "/constant/1/name: 'count' is taken");
  EXPECT_SAYS("name = \"x\"", "name = \"2x\"", "/input/0/name: expected a name");
  EXPECT_SAYS("type = \"f32\"", "type = \"f64\"", "/input/0/type: unknown word 'f64'");
  EXPECT_SAYS("\"2 * count\"", "\"2 * cuont\"", "/input/0/shape/1: column 5: unknown name 'cuont'");
  EXPECT_SAYS("\"2 * count\"", "\"count - 3\"", "/input/0/shape/1: 'count - 3' is 0 at count=3 factor=0.5");
  EXPECT_SAYS("\"2 * count\"", "\"1000000000 * count\"", "/input/0/shape/1: more than 2048 MiB at count=3 factor=0.5");
  EXPECT_SAYS("relative = 1e-3", "", "/output/0: no tolerance; accepted: exact = true, or relative and absolute");
  EXPECT_SAYS("relative = 1e-3", "relative = -1", "/output/0/relative: expected a number from 0 to below 1");
  EXPECT_SAYS("relative = 1e-3", "relative = 1e-3\nexact = true", "an exact output has no tolerance");
  EXPECT_SAYS("count = 4", "", "/setting/1: 'count' is missing");
  EXPECT_SAYS("count = 4", "count = 4.5", "/setting/1/count: expected a whole number");
  EXPECT_SAYS("count = 4\nfactor = 1.5", "count = 3\nfactor = 0.5", "/setting/1: the same constants as setting 0");
  EXPECT_SAYS("timed = true", "", "0 of those that apply to target cpu say timed = true; accepted: one");
  EXPECT_SAYS("timed = true", "timed = true\ntarget = \"gpu\"", "/setting/2/target: expected \"cpu\" or \"cuda\"");
  EXPECT_SAYS("timed = true", "timed = true\ntarget = \"cuda\"", "2 of them apply to target cpu; accepted: at least 3");
  EXPECT_SAYS("[[setting]]\ncount = 4\nfactor = 1.5\n", "", "2 of them apply to target cpu; accepted: at least 3");
  EXPECT_SAYS("[[setting]]", "[setting]", "line ");
  EXPECT_SAYS("about = \"", "about = ", "line 2: ");
  EXPECT_SAYS("data = [\"uniform\", \"special\"]", "", "'data' is missing");
  EXPECT_SAYS("\"special\"]", "\"offset\"]", "/data: \"offset\" goes with an input's own 'offset'");
  EXPECT_SAYS("type = \"f32\"\n", "type = \"f32\"\noffset = 1024\n", "\"offset\" goes with an input's own 'offset'");
  EXPECT_SAYS("type = \"f32\"\n", "type = \"f32\"\noffset = 1024\nfixed = true\n", "a fixed input is never moved");
}

TEST_F(LoadTest, AConstantThatNeverVariesIsNone) {
  std::string text = kGood;
  for (const char* factor : {"factor = 1.5", "factor = 2"})
    text.replace(text.find(factor), std::string(factor).size(), "factor = 0.5");
  write("task.toml", text);
  const auto loaded = load_task(directory_);
  ASSERT_FALSE(loaded.ok());
  EXPECT_NE(loaded.error().message.find("/constant/1: 'factor' has one value in all settings"), std::string::npos)
      << loaded.error().message;
}

TEST_F(LoadTest, IntegersHaveARange) {
  EXPECT_SAYS("type = \"f32\"", "type = \"i32\"", "/input/0: 'high' is missing");
  EXPECT_SAYS("type = \"f32\"", "type = \"i32\"\nhigh = 0", "/input/0/high: no whole number");
  EXPECT_EQ(complaint("type = \"f32\"", "type = \"i32\"\nhigh = \"count\""), "accepted");
  EXPECT_SAYS("type = \"f32\"", "type = \"f32\"\nhigh = 3", "/input/0/high: of i32 inputs alone");
}

TEST_F(LoadTest, ADirectoryWithoutATaskIsNone) {
  const auto missing = load_task(directory_ / "nothing");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().kind, ErrorKind::bad_input);
  EXPECT_NE(missing.error().message.find("a task is named by its directory or its task.toml"), std::string::npos);
}

TEST(ShippedTasks, AreRead) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(WARPSMITH_TASKS)) {
    if (!entry.is_directory()) continue;
    const auto task = load_task(entry.path());
    ASSERT_TRUE(task.ok()) << task.error().message;
    EXPECT_FALSE(statement_of(*task, Target::cpu).empty());
    ++count;
  }
  EXPECT_GE(count, 12);
}

// --- descriptors that name a task's tensors and constants ---

TEST_F(LoadTest, DescriptorsNameTensorsAndConstants) {
  write("task.toml", kGood);
  const auto task = load_task(directory_);
  ASSERT_TRUE(task.ok());
  const std::string descriptor = R"json({"warpsmith_candidate": 1, "workspace_bytes": "4 * count",
    "tune": {"BLOCK": [64, 128]}, "defines": {"SIZE": "count * count"},
    "kernels": [{"entry": "scale", "grid": ["ceil_div(count, BLOCK)"], "block": ["BLOCK"],
    "arguments": [{"pointer": "x"}, {"pointer": "y"}, {"int32": "count"}, {"float32": "factor"}, {"workspace": 4}]}]})json";
  const auto form = parse_candidate(descriptor, "BLOCK SIZE", "scale.json", task->names());
  ASSERT_TRUE(form.ok()) << form.error().message;
  Machine machine;
  machine.kind = "cuda";
  machine.compute_capability = 90;
  machine.smem_bytes_per_block = 1 << 16;
  const Instance instance = instance_of(*task, 1);
  const auto candidate = make_candidate(*form, instance, {{"BLOCK", 128}}, machine);
  ASSERT_TRUE(candidate.ok()) << candidate.error().message;
  const auto& launch = std::get<CudaLaunch>(candidate->launch);
  EXPECT_EQ(launch.workspace_bytes, 16);
  EXPECT_EQ(launch.kernels[0].block[0], 128);
  const SlabLayout layout = slab_of(instance, 16);
  const auto& arguments = launch.kernels[0].arguments;
  EXPECT_EQ(arguments[0], KernelArgument::workspace_pointer(layout.tensors[0]));
  EXPECT_EQ(arguments[1], KernelArgument::workspace_pointer(layout.tensors[1]));
  EXPECT_EQ(arguments[2], KernelArgument::integer(4));
  EXPECT_EQ(arguments[3], KernelArgument::number(1.5F));
  EXPECT_EQ(arguments[4], KernelArgument::workspace_pointer(layout.workspace + 4));
  EXPECT_NE(candidate->source.find("#define BLOCK 128\n"), std::string::npos);
  EXPECT_NE(candidate->source.find("#define SIZE 16\n"), std::string::npos);
}

TEST_F(LoadTest, DescriptorsOfTasksRefuseWhatIsAProducts) {
  write("task.toml", kGood);
  const auto task = load_task(directory_);
  ASSERT_TRUE(task.ok());
  const auto expect = [&](const std::string& descriptor, const std::string& words) {
    const auto form = parse_candidate(descriptor, "", "x.json", task->names());
    const std::string said = form.ok() ? "accepted" : form.error().message;
    EXPECT_NE(said.find(words), std::string::npos) << said;
  };
  const auto kernel = [](const std::string& argument) {
    return R"({"warpsmith_candidate": 1, "kernels": [{"entry": "f", "grid": [1], "block": [1], "arguments": [)" +
           argument + "]}]}";
  };
  expect(kernel(R"({"pointer": "a"})"), "/kernels/0/arguments/0/pointer: unknown tensor 'a'");
  expect(kernel(R"({"int32": "m"})"), "unknown name 'm'");
  expect(kernel(R"({"float32": "eps"})"), "unknown constant 'eps'");
  expect(kernel(R"({"alpha": true})"), "unknown field 'alpha'");
  expect(R"({"warpsmith_candidate": 1, "layouts": ["nn"]})", "unknown field 'layouts'");
  expect(R"({"warpsmith_candidate": 1, "source": "x.cpp"})", "/entry: expected the name");
  expect(R"({"warpsmith_candidate": 1, "source": "x.cpp", "entry": "f", "kernels": []})", "/kernels: a C++ source");
  expect(R"({"warpsmith_candidate": 1, "tune": {"block": [1]}})", "/tune/block: not a macro's name");
  expect(R"({"warpsmith_candidate": 1, "source": "x.cpp", "entry": "f"})", "accepted");
}

}  // namespace
}  // namespace warpsmith::task
