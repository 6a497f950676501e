// Descriptors of free-form candidates: every rule with an input that breaks it, values per problem, exported recipes
// that load again.
#include "codegen/descriptor.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <string>

#include "codegen/nearest.h"
#include "recipe/recipe.h"

namespace warpsmith {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

Machine gpu(int capability = 90) {
  Machine machine;
  machine.kind = "cuda";
  machine.name = "test GPU";
  machine.compute_capability = capability;
  machine.units = 132;
  machine.smem_bytes_per_block = 232448;
  machine.registers_per_unit = 65536;
  return machine;
}

Problem problem(const std::string& text) { return parse_problem(text).value(); }

json minimal() {
  return json::parse(R"json({
    "warpsmith_candidate": 1,
    "kernels": [{
      "entry": "gemm", "grid": ["ceil_div(n, 64)", "ceil_div(m, 64)"], "block": [128],
      "arguments": [{"pointer": "a"}, {"pointer": "b"}, {"pointer": "c"}, {"int32": "m"}, {"int32": "n"}, {"int32": "k"}]
    }]
})json");
}

json with_map() {
  json document = minimal();
  document["kernels"][0]["arguments"][0] = {{"tensor_map", {{"operand", "a"}, {"box", {64, 128}}}}};
  return document;
}

Result<FreeForm> parse(const json& document, std::string source = "// source\n") {
  return parse_candidate(document.dump(), std::move(source), "dir/thing.json");
}

std::string parse_error(const json& document) {
  const auto form = parse(document);
  if (form) return "no error";
  EXPECT_EQ(form.error().kind, ErrorKind::bad_input);
  return form.error().message;
}

std::string instantiate_error(const json& document, const std::string& text = "1000x512x64 tn", int capability = 90) {
  const auto form = parse(document);
  EXPECT_TRUE(form.ok()) << form.error().message;
  if (!form) return {};
  const auto candidate = instantiate(*form, problem(text), gpu(capability));
  if (candidate) return "no error";
  EXPECT_EQ(candidate.error().kind, ErrorKind::bad_input);
  return candidate.error().message;
}

CudaLaunch launch(const json& document, const std::string& text = "1000x512x64 tn") {
  const auto form = parse(document);
  EXPECT_TRUE(form.ok()) << form.error().message;
  const auto candidate = instantiate(form.value(), problem(text), gpu());
  EXPECT_TRUE(candidate.ok()) << candidate.error().message;
  return std::get<CudaLaunch>(candidate.value().launch);
}

#define EXPECT_MENTIONS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

TEST(Descriptor, DefaultsAreFilledIn) {
  const auto form = parse(minimal());
  ASSERT_TRUE(form.ok()) << form.error().message;
  EXPECT_EQ(form->name, "thing");
  EXPECT_EQ(form->source_name, "thing.cu");
  EXPECT_EQ(form->layouts.size(), 4u);
  EXPECT_EQ(form->elements, std::vector<ElementType>{ElementType::f16});
  const auto candidate = instantiate(*form, problem("1000x512x64 tn"), gpu());
  ASSERT_TRUE(candidate.ok()) << candidate.error().message;
  EXPECT_EQ(candidate->arch, "sm_90a");
  EXPECT_EQ(candidate->source, "// source\n");
  EXPECT_FALSE(candidate->order_nondeterministic);
  EXPECT_EQ(instantiate(*form, problem("64x64x64"), gpu(80))->arch, "sm_80");
}

TEST(Descriptor, NumbersFollowTheProblem) {
  json document = with_map();
  document["workspace_bytes"] = "m * n * 4 * 2";
  document["zero_workspace"] = true;
  document["order_nondeterministic"] = "atomics";
  json second = {{"entry", "reduce"},
                 {"grid", {"sms * 2"}},
                 {"block", {32, 4}},
                 {"cluster", {2}},
                 {"dynamic_smem_bytes", "k * 100"},
                 {"programmatic_dependent_launch", true},
                 {"arguments", {{{"workspace", "m * n * 4"}}, {{"float32", 0.5}}, {{"int32", "lda - ldb"}}}}};
  document["kernels"].push_back(second);
  const CudaLaunch got = launch(document);
  EXPECT_EQ(got.workspace_bytes, 1000 * 512 * 8);
  EXPECT_TRUE(got.zero_workspace);
  ASSERT_EQ(got.kernels.size(), 2u);
  EXPECT_EQ(got.kernels[0].grid, (std::array<int, 3>{8, 16, 1}));
  EXPECT_EQ(got.kernels[0].block, (std::array<int, 3>{128, 1, 1}));
  const TensorMap& map = got.kernels[0].arguments[0].map;
  EXPECT_EQ(map.dims, (std::array<std::int64_t, 2>{64, 1000}));
  EXPECT_EQ(map.ld, 64);
  EXPECT_EQ(map.box, (std::array<int, 2>{64, 128}));
  EXPECT_EQ(map.swizzle_bytes, 128);
  EXPECT_EQ(map.l2_promotion_bytes, 256);
  EXPECT_EQ(got.kernels[1].grid, (std::array<int, 3>{264, 1, 1}));
  EXPECT_EQ(got.kernels[1].cluster, (std::array<int, 3>{2, 1, 1}));
  EXPECT_EQ(got.kernels[1].dynamic_smem_bytes, 6400);
  EXPECT_EQ(got.kernels[1].arguments[0], KernelArgument::workspace_pointer(1000 * 512 * 4));
  EXPECT_EQ(got.kernels[1].arguments[1], KernelArgument::number(0.5F));
  EXPECT_EQ(got.kernels[1].arguments[2], KernelArgument::integer(0));
  EXPECT_TRUE(got.offers_programmatic_dependent_launch());
  EXPECT_TRUE(offers_programmatic_dependent_launch(json(got)));
  EXPECT_FALSE(offers_programmatic_dependent_launch(json(launch(minimal()))));
  EXPECT_FALSE(offers_programmatic_dependent_launch(json(CpuLaunch{"kernel", 1, 0, {}})));
  EXPECT_EQ(json(got).get<CudaLaunch>(), got);  // the way to the worker
}

TEST(Descriptor, FactorsMakeACandidateForScaledProblems) {
  json document = minimal();
  document["kernels"][0]["arguments"] = {{{"pointer", "c"}}, {{"alpha", true}}, {{"beta", true}}};
  const CudaLaunch got = launch(document, "1000x512x64 tn scaled");
  EXPECT_EQ(got.kernels[0].arguments[1], KernelArgument::alpha());
  EXPECT_EQ(got.kernels[0].arguments[2], KernelArgument::beta());
  EXPECT_TRUE(got.takes_scaling());
  EXPECT_FALSE(launch(minimal()).takes_scaling());
  EXPECT_EQ(json(got).get<CudaLaunch>(), got);
  EXPECT_MENTIONS(instantiate_error(document), "made for problems with alpha and beta");
  EXPECT_MENTIONS(instantiate_error(minimal(), "1000x512x64 tn scaled"), "alpha and beta are no arguments");
  document["kernels"][0]["arguments"] = {{{"pointer", "c"}}, {{"alpha", true}}};
  EXPECT_MENTIONS(parse(document).error().message, "alpha is an argument, but not beta");
  document["kernels"][0]["arguments"] = {{{"alpha", 2}}, {{"beta", true}}};
  EXPECT_MENTIONS(parse(document).error().message, "/kernels/0/arguments/0/alpha: expected true");
}

TEST(Descriptor, PaddedProblemsAreClaimedByWord) {
  const std::string padded = "1000x512x64 tn ld=72,80,520";
  EXPECT_MENTIONS(instantiate_error(with_map(), padded), "made for packed operands");
  json document = with_map();
  document["leading_dimensions"] = true;
  document["kernels"][0]["arguments"].push_back({{"int32", "lda * 1000000 + ldb * 1000 + ldc"}});
  const CudaLaunch got = launch(document, padded);
  EXPECT_EQ(got.kernels[0].arguments[0].map.ld, 72);
  EXPECT_EQ(got.kernels[0].arguments[0].map.dims, (std::array<std::int64_t, 2>{64, 1000}));
  EXPECT_EQ(got.kernels[0].arguments.back(), KernelArgument::integer(72'080'520));
  EXPECT_EQ(launch(document).kernels[0].arguments[0].map.ld, 64);
  EXPECT_MENTIONS(instantiate_error(document, "1000x512x64 tn ld=71,80,520"), "multiples of 8");
}

TEST(Descriptor, AccumulatorsAreClaimedByWord) {
  EXPECT_MENTIONS(instantiate_error(minimal(), "64x64x64 nn f16 f16"), "accumulator f16; made for f32");
  json document = minimal();
  document["accumulators"] = {"f16"};
  EXPECT_EQ(launch(document, "64x64x64 nn f16 f16").kernels.size(), 1u);
  EXPECT_MENTIONS(instantiate_error(document), "accumulator f32; made for f16");
}

TEST(Descriptor, LayoutsDecideDimensionsAndVariables) {
  json document = with_map();
  document["kernels"][0]["arguments"][1] = {
      {"tensor_map", {{"operand", "b"}, {"box", {"b_k_major ? 32 : 64", "b_k_major ? 64 : 32"}}}}};
  const CudaLaunch tn = launch(document, "1000x512x64 tn"), nn = launch(document, "1000x512x64 nn");
  EXPECT_EQ(tn.kernels[0].arguments[1].map.dims, (std::array<std::int64_t, 2>{64, 512}));
  EXPECT_EQ(nn.kernels[0].arguments[1].map.dims, (std::array<std::int64_t, 2>{512, 64}));
  EXPECT_EQ(tn.kernels[0].arguments[1].map.box, (std::array<int, 2>{32, 64}));
  EXPECT_EQ(nn.kernels[0].arguments[1].map.box, (std::array<int, 2>{64, 32}));
}

TEST(Descriptor, MacrosReachTheSourceThatMentionsThem) {
  json document = minimal();
  document["elements"] = {"f16", "bf16"};
  document["defines"] = {{"TILES", "ceil_div(k, 32)"}, {"BIAS", -5}, {"BIG", "m * 1000000000"}, {"UNUSED", 1}};
  const std::string source = "TILES BIAS BIG WARPSMITH_BF16 WARPSMITH_A_K_MAJOR WARPSMITH_B_K_MAJOR\n";
  const auto form = parse(document, source);
  ASSERT_TRUE(form.ok()) << form.error().message;
  EXPECT_EQ(instantiate(*form, problem("1000x512x64 nn bf16"), gpu())->source,
            "#define WARPSMITH_BF16 1\n#define WARPSMITH_A_K_MAJOR 1\n#define WARPSMITH_B_K_MAJOR 0\n"
            "#define BIAS (-5)\n#define BIG 1000000000000LL\n#define TILES 2\n#line 1 \"thing.cu\"\n" +
                source);
  EXPECT_EQ(instantiate(*form, problem("1x512x64 tt"), gpu())->source.substr(0, 85),
            "#define WARPSMITH_BF16 0\n#define WARPSMITH_A_K_MAJOR 0\n#define WARPSMITH_B_K_MAJOR 1\n");
}

// --- what the reader refuses ---

TEST(Descriptor, MessagesNameFileFieldAndWhatIsAccepted) {
  json document = minimal();
  document["kernels"][0]["grid"][1] = "ceil_div(m, 64";
  EXPECT_EQ(parse_error(document),
            "dir/thing.json: /kernels/0/grid/1: column 15: expected ')' of ceil_div(x, y) in "
            "'ceil_div(m, 64'");
}

TEST(Descriptor, UnknownFieldsAreRefusedWithTheNearestName) {
  json document = minimal();
  document["kernels"][0]["cluser"] = {2};
  EXPECT_MENTIONS(parse_error(document), "dir/thing.json: /kernels/0: unknown field 'cluser'; did you mean 'cluster'?");
  document = minimal();
  document["workspace_byte"] = 5;
  EXPECT_MENTIONS(parse_error(document), "did you mean 'workspace_bytes'?");
  document = minimal();
  document["kernels"][0]["arguments"][2] = {{"pionter", "a"}};
  EXPECT_MENTIONS(parse_error(document), "/kernels/0/arguments/2: unknown field 'pionter'; did you mean 'pointer'?");
  document = with_map();
  document["kernels"][0]["arguments"][0]["tensor_map"]["swizzle"] = 128;
  EXPECT_MENTIONS(parse_error(document), "/kernels/0/arguments/0/tensor_map: unknown field 'swizzle'");
}

TEST(Descriptor, RefusesWrongTypesAndMissingFields) {
  const auto broken = [](const char* pointer, json value) {
    json document = with_map();
    document[json::json_pointer(pointer)] = std::move(value);
    return parse_error(document);
  };
  EXPECT_MENTIONS(broken("/warpsmith_candidate", 2), "/warpsmith_candidate: unknown version; accepted: 1");
  EXPECT_MENTIONS(broken("/name", 3), "/name: expected text");
  EXPECT_MENTIONS(broken("/source", "../other.cu"), "/source: not a file name");
  EXPECT_MENTIONS(broken("/source", "/etc/passwd"), "/source: not a file name");
  EXPECT_MENTIONS(broken("/layouts", "tn"), "/layouts: expected a list");
  EXPECT_MENTIONS(broken("/layouts", {"tx"}), "/layouts/0: unknown layout 'tx'; accepted: tn, nn, tt, nt");
  EXPECT_MENTIONS(broken("/elements", json::array()), "/elements: expected 1 to 4 entries, not 0");
  EXPECT_MENTIONS(broken("/elements", {"f32"}), "/elements/0: unknown element type 'f32'");
  EXPECT_MENTIONS(broken("/requires", {"m %% 4"}), "/requires/0: column 4");
  EXPECT_MENTIONS(broken("/arch", "compute_90"), "/arch: not an architecture");
  EXPECT_MENTIONS(broken("/arch", "sm_90a --include-path=/"), "/arch: not an architecture");
  EXPECT_MENTIONS(broken("/defines", {{"lower", 1}}), "/defines/lower: not a macro's name");
  EXPECT_MENTIONS(broken("/defines", {{"WARPSMITH_BF16", 1}}), "/defines/WARPSMITH_BF16: not a macro's name");
  EXPECT_MENTIONS(broken("/defines", {{"A(x) x\n#include \"f\"\n#define B", 1}}), "not a macro's name");
  EXPECT_MENTIONS(broken("/workspace_bytes", 1.5), "/workspace_bytes: expected a whole number or an expression");
  EXPECT_MENTIONS(broken("/workspace_bytes", std::uint64_t{1} << 63), "/workspace_bytes: expected a whole number");
  EXPECT_MENTIONS(broken("/zero_workspace", 1), "/zero_workspace: expected true or false");
  EXPECT_MENTIONS(broken("/order_nondeterministic", ""), "/order_nondeterministic: expected the reason");
  EXPECT_MENTIONS(broken("/order_nondeterministic", true), "/order_nondeterministic: expected text");
  EXPECT_MENTIONS(broken("/kernels", json::array()), "/kernels: expected 1 to 8 entries, not 0");
  EXPECT_MENTIONS(broken("/kernels", json(9, minimal()["kernels"][0])), "/kernels: expected 1 to 8 entries, not 9");
  EXPECT_MENTIONS(broken("/kernels/0", 5), "/kernels/0: expected an object");
  EXPECT_MENTIONS(broken("/kernels/0/entry", "my kernel"), "/kernels/0/entry: expected the name of an extern");
  EXPECT_MENTIONS(broken("/kernels/0/grid", {1, 2, 3, 4}), "/kernels/0/grid: expected 1 to 3 entries, not 4");
  EXPECT_MENTIONS(broken("/kernels/0/block", 128), "/kernels/0/block: expected a list");
  EXPECT_MENTIONS(broken("/kernels/0/arguments", json(33, {{"int32", 1}})), "expected 1 to 32 entries, not 33");
  EXPECT_MENTIONS(broken("/kernels/0/arguments/1", {{"pointer", "d"}}),
                  "/kernels/0/arguments/1/pointer: expected \"a\", \"b\" or \"c\"");
  EXPECT_MENTIONS(broken("/kernels/0/arguments/1", {{"pointer", "a"}, {"int32", 1}}),
                  "/kernels/0/arguments/1: expected one of pointer");
  EXPECT_MENTIONS(broken("/kernels/0/arguments/1", json::object()), "/kernels/0/arguments/1: expected one of pointer");
  EXPECT_MENTIONS(broken("/kernels/0/arguments/1", {{"float32", "m"}}), "/float32: expected a number");
  EXPECT_MENTIONS(broken("/kernels/0/arguments/1", {{"float32", 1e300}}), "/float32: the number does not fit");
  EXPECT_MENTIONS(broken("/kernels/0/arguments/0/tensor_map/box", {64}), "/box: expected 2 to 2 entries, not 1");
  EXPECT_MENTIONS(broken("/kernels/0/arguments/0/tensor_map/operand", "w"), "/operand: expected");
  const auto without = [](const char* object, const char* field) {
    json document = with_map();
    document[json::json_pointer(object)].erase(field);
    return parse_error(document);
  };
  EXPECT_MENTIONS(without("", "warpsmith_candidate"), "\"warpsmith_candidate\": 1 is missing");
  EXPECT_MENTIONS(without("", "kernels"), "\"kernels\" is missing");
  EXPECT_MENTIONS(without("/kernels/0", "entry"), "/kernels/0/entry: expected the name");
  EXPECT_MENTIONS(without("/kernels/0", "grid"), "/kernels/0/grid: missing");
  EXPECT_MENTIONS(without("/kernels/0", "block"), "/kernels/0/block: missing");
  EXPECT_MENTIONS(without("/kernels/0", "arguments"), "/kernels/0/arguments: expected a list");
  EXPECT_MENTIONS(without("/kernels/0/arguments/0/tensor_map", "box"), "/box: expected a list");
}

TEST(Descriptor, RefusesWhatIsNotJson) {
  const auto error = [](const std::string& text) { return parse_candidate(text, "", "x.json").error().message; };
  EXPECT_TRUE(error("{\"name\": ").starts_with("x.json: not JSON: "));
  EXPECT_EQ(error("[]"), "x.json: expected an object");
  EXPECT_EQ(error(R"({"name": "a", "name": "b"})"), "x.json: the field 'name' is given twice");
  EXPECT_EQ(error(std::string(100000, '[')).find('\n'), std::string::npos);
  EXPECT_MENTIONS(error("\xff\xfe"), "not JSON");
}

// --- what a device refuses ---

TEST(Descriptor, RefusesNumbersBeyondTheDevice) {
  const auto broken = [](const char* pointer, json value) {
    json document = with_map();
    document["workspace_bytes"] = 1024;
    document[json::json_pointer(pointer)] = std::move(value);
    return instantiate_error(document);
  };
  EXPECT_EQ(
      broken("/kernels/0/grid/0", "m - 1000"),
      "dir/thing.json: /kernels/0/grid/0: 'm - 1000' is 0; accepted: 1 to 2147483647 (for 1000x512x64 tn f16 f32)");
  EXPECT_MENTIONS(broken("/kernels/0/grid/1", "m * 100"),
                  "/kernels/0/grid/1: 'm * 100' is 100000; accepted: 1 to 65535");
  EXPECT_MENTIONS(broken("/kernels/0/grid/0", "m / (k - 64)"), "/kernels/0/grid/0: column 3: division by zero");
  EXPECT_MENTIONS(broken("/kernels/0/block", {2048}), "/kernels/0/block/0: '2048' is 2048; accepted: 1 to 1024");
  EXPECT_MENTIONS(broken("/kernels/0/block", {1, 1, 65}), "/kernels/0/block/2: '65' is 65; accepted: 1 to 64");
  EXPECT_MENTIONS(broken("/kernels/0/block", {64, 32}), "/kernels/0/block: 2048 threads; at most 1024");
  EXPECT_MENTIONS(broken("/kernels/0/cluster", {32}), "/kernels/0/cluster/0: '32' is 32; accepted: 1 to 16");
  EXPECT_MENTIONS(broken("/kernels/0/cluster", {8, 4}), "/kernels/0/cluster: 32 blocks; at most 16");
  EXPECT_MENTIONS(broken("/kernels/0/cluster", {3}),
                  "/kernels/0/cluster: the grid of 8x16x1 blocks is not whole clusters");
  EXPECT_MENTIONS(broken("/kernels/0/dynamic_smem_bytes", 232449), "accepted: 0 to 232448");
  EXPECT_MENTIONS(broken("/workspace_bytes", "m * n * n * n"),
                  "/workspace_bytes: 'm * n * n * n' is 134217728000; "
                  "accepted: 0 to 4294967296");
  EXPECT_MENTIONS(broken("/kernels/0/arguments/3", {{"int32", "m * n * n * n"}}), "/kernels/0/arguments/3/int32: ");
  EXPECT_MENTIONS(broken("/kernels/0/arguments/3", {{"workspace", 1024}}),
                  "/kernels/0/arguments/3/workspace: '1024' is 1024; accepted: 0 to 1023");
  EXPECT_EQ(broken("/name", "fine"), "no error");
  json document = minimal();
  document["kernels"][0]["arguments"][0] = {{"workspace", 0}};
  EXPECT_MENTIONS(instantiate_error(document), "/kernels/0/arguments/0: a workspace pointer, but");
  document = minimal();
  document["kernels"][0]["cluster"] = {2};
  EXPECT_MENTIONS(instantiate_error(document, "128x128x64", 80), "clusters need compute capability 9.0");
  EXPECT_MENTIONS(instantiate_error(with_map(), "128x128x64", 80), "tensor maps need compute capability 9.0");
}

TEST(Descriptor, RefusesTensorMapsThatTheDriverWouldRefuse) {
  const auto broken = [](const char* field, json value, const char* text = "1000x512x64 tn") {
    json document = with_map();
    document["kernels"][0]["arguments"][0]["tensor_map"][field] = std::move(value);
    return instantiate_error(document, text);
  };
  const std::string at = "/kernels/0/arguments/0/tensor_map/";
  EXPECT_MENTIONS(broken("box", {64, 257}), at + "box/1: '257' is 257; accepted: 1 to 256");
  EXPECT_MENTIONS(broken("box", {72, 64}), at + "box/0: 72 elements are 144 bytes, more than the swizzle of 128");
  EXPECT_MENTIONS(broken("box", {12, 64}), at + "box/0: 12 elements are 24 bytes; accepted: multiples of 16 bytes");
  EXPECT_MENTIONS(broken("swizzle_bytes", 96), at + "swizzle_bytes: '96' is 96; accepted: 0, 32, 64, 128");
  EXPECT_MENTIONS(broken("l2_promotion_bytes", 32), at + "l2_promotion_bytes: '32' is 32; accepted: 0, 64, 128, 256");
  EXPECT_MENTIONS(broken("box", {64, 64}, "1000x512x65 tn"), at + "ld: rows of 65 elements; a tensor map needs");
  EXPECT_MENTIONS(broken("dims", {"k", "m + 1"}),
                  "64 columns and 1001 rows at 64 elements from row to row leave "
                  "operand a of 1000 x 64");
  EXPECT_MENTIONS(broken("ld", "k * 2"), "leave operand a");
  EXPECT_MENTIONS(broken("dims", {"k * 2", 1}), "leave operand a");
  EXPECT_EQ(broken("dims", {"k", "m - 1"}), "no error");
  json view = with_map();
  view["kernels"][0]["arguments"][0]["tensor_map"]["dims"] = {"k / 2", "m / 2"};
  view["kernels"][0]["arguments"][0]["tensor_map"]["ld"] = "k * 2";
  EXPECT_EQ(launch(view).kernels[0].arguments[0].map.ld, 128);
}

TEST(Descriptor, SaysWhyAProblemIsNotApplicable) {
  json document = minimal();
  document["layouts"] = {"nn", "tn"};
  document["requires"] = {"m % 8 == 0", "k <= 4096"};
  document["arch"] = "sm_90a";
  const FreeForm form = parse(document).value();
  const auto reason = [&](const char* text, int capability = 90) {
    return inapplicable(form, problem(text), gpu(capability)).value().value_or("applicable");
  };
  EXPECT_EQ(reason("1000x512x64 tn"), "applicable");
  EXPECT_EQ(reason("1000x512x64 tt"), "layout tt; made for nn, tn");
  EXPECT_EQ(reason("1000x512x64 tn bf16"), "elements bf16; made for f16");
  EXPECT_EQ(reason("1001x512x64 tn"), "requires m % 8 == 0");
  EXPECT_EQ(reason("1000x512x8192 tn"), "requires k <= 4096");
  EXPECT_EQ(reason("1000x512x64 tn", 80), "the device is sm_80; made for sm_90a");
  EXPECT_EQ(instantiate(form, problem("1001x512x64 tn"), gpu()).error().message,
            "dir/thing.json: not applicable to 1001x512x64 tn f16 f32: requires m % 8 == 0");
  Machine cpu;
  cpu.kind = "cpu";
  EXPECT_EQ(inapplicable(form, problem("8x8x8"), cpu).error().message,
            "dir/thing.json: a free-form candidate is CUDA device code; this target takes recipes only");
  json undecidable = minimal();
  undecidable["requires"] = {"m / (k - 64)"};
  EXPECT_MENTIONS(inapplicable(parse(undecidable).value(), problem("8x8x64"), gpu()).error().message,
                  "/requires/0: column 3: division by zero");
}

TEST(Descriptor, MachineCodeRunsOnItsOwnGeneration) {
  json document = minimal();
  const auto runs = [&](const char* arch, int capability) {
    document["arch"] = arch;
    return !inapplicable(parse(document).value(), problem("8x8x8"), gpu(capability)).value().has_value();
  };
  EXPECT_TRUE(runs("sm_90a", 90));
  EXPECT_FALSE(runs("sm_90a", 100));
  EXPECT_TRUE(runs("sm_80", 86));
  EXPECT_FALSE(runs("sm_86", 80));
  EXPECT_FALSE(runs("sm_80", 90));
  EXPECT_TRUE(runs("sm_100f", 103));
}

// --- files ---

class CandidateFiles : public testing::Test {
 protected:
  CandidateFiles() : directory_(fs::temp_directory_path() / ("warpsmith-descriptor-" + std::to_string(::getpid()))) {
    fs::create_directories(directory_);
  }
  ~CandidateFiles() override { fs::remove_all(directory_); }
  fs::path write(const std::string& name, const std::string& text) const {
    std::ofstream(directory_ / name) << text;
    return directory_ / name;
  }
  const fs::path directory_;
};

TEST_F(CandidateFiles, EitherFileMayBeNamed) {
  const fs::path source = write("one.cu", "// one\n"), descriptor = write("one.json", minimal().dump());
  for (const fs::path& path : {source, descriptor}) {
    const auto form = load_candidate(path);
    ASSERT_TRUE(form.ok()) << form.error().message;
    EXPECT_EQ(form->source, "// one\n");
    EXPECT_EQ(form->name, "one");
  }
  json other = minimal();
  other["source"] = "one.cu";
  const auto form = load_candidate(write("two.json", other.dump()));
  ASSERT_TRUE(form.ok()) << form.error().message;
  EXPECT_EQ(form->source, "// one\n");
}

TEST_F(CandidateFiles, SaysWhatIsMissing) {
  const auto error = [](const fs::path& path) { return load_candidate(path).error().message; };
  EXPECT_EQ(error(directory_ / "no.cu"), (directory_ / "no.json").string() + ": no such file");
  EXPECT_MENTIONS(error(write("lone.cu", "")), "its launch descriptor");
  EXPECT_MENTIONS(error(write("bare.json", minimal().dump())), "bare.cu: no such file");
  EXPECT_MENTIONS(error(write("x.txt", "")), "named by its .cu or its .json");
  json other = minimal();
  other["source"] = "one.cu";
  write("three.json", other.dump());
  EXPECT_MENTIONS(error(write("three.cu", "")), "/source: names one.cu, not three.cu");
  write("big.json", std::string(kMaxDescriptorBytes + 1, ' '));
  EXPECT_MENTIONS(error(directory_ / "big.json"), "at most 1048576 are accepted");
  write("wide.json", minimal().dump());
  EXPECT_MENTIONS(error(write("wide.cu", std::string(kMaxSourceBytes + 1, ' '))), "at most 4194304 are accepted");
  fs::create_directory(directory_ / "folder.json");
  EXPECT_MENTIONS(error(directory_ / "folder.json"), "no such file");
}

// What `optimize` writes loads again and launches the same.
TEST_F(CandidateFiles, DescribedRecipesLoadAgain) {
  const auto starts = [](const std::string& text) {
    std::vector<Recipe> recipes;
    for (const Family* family : {&sm90_family(), &sm80_family()}) {
      for (const Recipe& recipe : family->starting_points(problem(text), gpu())) recipes.push_back(recipe);
    }
    return recipes;
  };
  int seen = 0;
  for (const char* text : {"1024x1024x1024 tn", "1000x904x800 nn", "136x136x64 tt bf16", "64x4096x512 nt"}) {
    for (const Recipe& recipe : starts(text)) {
      const Candidate made = generate(recipe, problem(text), gpu()).value();
      const std::string stem = "export-" + std::to_string(seen++);
      write(stem + ".cu", made.source);
      write(stem + ".json", describe_candidate(made, stem, problem(text), {{"recipe", to_string(recipe)}}).dump(2));
      const auto form = load_candidate(directory_ / (stem + ".json"));
      ASSERT_TRUE(form.ok()) << form.error().message;
      const int capability = made.arch == "sm_80" ? 80 : 90;
      const auto loaded = instantiate(*form, problem(text), gpu(capability));
      ASSERT_TRUE(loaded.ok()) << loaded.error().message;
      EXPECT_EQ(std::get<CudaLaunch>(loaded->launch), std::get<CudaLaunch>(made.launch)) << to_string(recipe);
      EXPECT_EQ(loaded->source, made.source);
      EXPECT_EQ(loaded->arch, made.arch);
      EXPECT_TRUE(inapplicable(*form, problem("512x512x512"), gpu(capability)).value().has_value());
    }
  }
  EXPECT_GT(seen, 8);
}

// Damaged descriptors give an error or a launch within limits, never a crash; the sanitizer build watches.
TEST(Descriptor, SurvivesDamage) {
  json document = with_map();
  document["workspace_bytes"] = "m * n";
  document["requires"] = {"m > 0"};
  document["defines"] = {{"TILE", "n / 2"}};
  const std::string whole = document.dump();
  std::mt19937_64 random(99);
  const std::string alphabet = "{}[]\",:0123456789-+*/mnk null true abc";
  int loaded = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string text = whole;
    for (std::uint64_t edits = 1 + random() % 3; edits > 0; --edits) {
      text[random() % text.size()] = alphabet[random() % alphabet.size()];
    }
    const auto form = parse_candidate(text, "TILE", "x.json");
    if (!form) {
      ASSERT_EQ(form.error().message.find('\n'), std::string::npos);
      continue;
    }
    const auto candidate = instantiate(*form, problem("1000x512x64 tn"), gpu());
    if (!candidate) continue;
    ++loaded;
    for (const KernelLaunch& kernel : std::get<CudaLaunch>(candidate->launch).kernels) {
      ASSERT_LE(kernel.block[0] * kernel.block[1] * kernel.block[2], 1024);
      ASSERT_LE(kernel.dynamic_smem_bytes, 232448);
    }
  }
  EXPECT_GT(loaded, 200);
}

TEST(Nearest, CountsEdits) {
  EXPECT_EQ(edits_between("", ""), 0u);
  EXPECT_EQ(edits_between("abc", ""), 3u);
  EXPECT_EQ(edits_between("grid", "girds"), 2u);
  EXPECT_EQ(edits_between("kitten", "sitting"), 3u);
  EXPECT_EQ(unknown_name("knob", "tilee", {"tile", "warps"}),
            "unknown knob 'tilee'; did you mean 'tile'? accepted: tile, warps");
  EXPECT_EQ(unknown_name("knob", "zzzzzz", {"tile", "warps"}), "unknown knob 'zzzzzz'; accepted: tile, warps");
}

}  // namespace
}  // namespace warpsmith
