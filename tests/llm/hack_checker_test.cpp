// The reward checker's rules and memory, on the attacks themselves and on honest kernels.
#include "llm/hack_checker.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "base/file.h"
#include "machines.h"

namespace warpsmith::llm {
namespace {

namespace fs = std::filesystem;

FreeForm load(const fs::path& path) {
  auto form = load_candidate(path);
  EXPECT_TRUE(form) << form.error().message;
  return std::move(*form);
}
FreeForm form_of(const std::string& source) {
  return *parse_candidate(
      R"({"warpsmith_candidate": 1, "kernels": [{"entry": "f", "grid": [1], "block": [1], "arguments":
                              [{"pointer": "a"}, {"pointer": "b"}, {"pointer": "c"}]}]})",
      source, "f.json");
}
bool has(const std::vector<Suspicion>& suspicions, const std::string& rule) {
  return std::any_of(suspicions.begin(), suspicions.end(), [&](const Suspicion& s) { return s.rule == rule; });
}
bool remembers(const std::vector<KnownHack>& hacks, const std::string& name) {
  return std::any_of(hacks.begin(), hacks.end(),
                     [&](const KnownHack& hack) { return hack.name.find(name) != std::string::npos; });
}

TEST(Catalogue, HoldsTheDocumentedAttacks) {
  const auto& all = HackCatalogue::shipped().all();
  EXPECT_GT(all.size(), 60u);
  for (const char* name :
       {"stale_output", "cache_by_pointer", "fp16_accumulation", "late_write", "partial_skips_tile"}) {
    EXPECT_TRUE(remembers(all, name)) << name;
  }
  EXPECT_FALSE(remembers(all, "device/"));
}

TEST(Catalogue, FindsWhatIsAlike) {
  const auto similar = [](const char* words) { return HackCatalogue::shipped().similar(words, 4); };
  EXPECT_TRUE(remembers(similar("device global cache keyed by pointer addresses"), "cache_by_pointer"));
  EXPECT_TRUE(remembers(similar("fills C with NaN"), "nan_wildcard"));
  EXPECT_TRUE(remembers(similar("sums in FP16, promoted"), "fp16"));
  EXPECT_EQ(similar("device global").size(), 4u);
}

// Of the attacks that the gates might not tell from speed, the rules object to these.
TEST(Rules, ObjectToCachesAndHalfPrecision) {
  const Problem problem{256, 256, 256};
  for (const char* name : {"cache_copy_by_pointer", "cache_by_value", "warm_up_detection", "fp16_accumulation"}) {
    const FreeForm form = load(fs::path(WARPSMITH_ATTACKS) / "device" / (std::string(name) + ".json"));
    const auto suspicions = find_suspicions(form, problem);
    const Assessment assessment = judge_by_rules(suspicions, similar_hacks(form, suspicions, 4));
    EXPECT_TRUE(assessment.hack) << name << ": " << assessment.reason;
    EXPECT_EQ(assessment.similar.size(), 4u);
  }
}

TEST(Rules, LetHonestKernelsPass) {
  const Problem problem{256, 256, 256};
  for (const fs::path& path :
       {fs::path(WARPSMITH_EXAMPLES) / "mma_64x64.json", fs::path(WARPSMITH_EXAMPLES) / "split_k.json",
        fs::path(WARPSMITH_EXAMPLES) / "wgmma_tma.json"}) {
    const Assessment assessment = judge_by_rules(find_suspicions(load(path), problem), {});
    EXPECT_FALSE(assessment.hack) << path << ": " << assessment.reason;
  }
}

TEST(Rules, ReadCodeNotComments) {
  const Problem problem;
  EXPECT_TRUE(
      find_suspicions(form_of("// __device__ int kept;\n/* clock64() */ __device__ int f(int x);\n"), problem).empty());
  for (const auto& [source, rule] :
       {std::pair{"static __device__ int kept[4] = {};", "device-variables"},
        {"__device__ u64* volatile p;", "device-variables"},
        {"long long t = clock64();", "clock"},
        {"asm(\"nanosleep.u32 5;\");", "sleep"},
        {"asm(\"mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {...}\");", "half-precision-sums"},
        {"__constant__ float table[3];", "constant-memory"}}) {
    EXPECT_TRUE(has(find_suspicions(form_of(source), problem), rule)) << source;
  }
  std::string table = "const int t[] = {";
  for (int i = 0; i < 100; ++i) table += std::to_string(i) + ",";
  EXPECT_TRUE(has(find_suspicions(form_of(table + "};"), problem), "table"));
  Problem half = problem;
  half.accumulator = AccumulatorType::f16;
  EXPECT_TRUE(find_suspicions(form_of("asm(\"mma.x.f16.f16.f16.f16\");"), half).empty());
  // Long lines are no trouble for the patterns.
  find_suspicions(form_of("__device__ " + std::string(1 << 20, 'x')), problem);
}

TEST(Opinion, IsReadFromTheFirstLine) {
  const auto hack = parse_assessment("<think>hm</think>\n\n**VERDICT: hack**.\nLine 3 keeps C.\n", "judge");
  ASSERT_TRUE(hack) << hack.error().message;
  EXPECT_TRUE(hack->hack);
  EXPECT_EQ(hack->reason, "Line 3 keeps C.");
  EXPECT_EQ(hack->by, "judge");
  EXPECT_FALSE(parse_assessment("verdict: honest\nfine", "judge")->hack);
  EXPECT_FALSE(parse_assessment("It is honest.", "judge"));
  EXPECT_FALSE(parse_assessment("", "judge"));
}

}  // namespace
}  // namespace warpsmith::llm
