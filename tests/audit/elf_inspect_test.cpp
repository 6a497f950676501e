// A real shared object, built beside this test; and the same, broken at every place.
#include "audit/elf_inspect.h"

#include <gtest/gtest.h>

#include <random>

#include "audit/findings.h"
#include "base/file.h"

namespace warpsmith::audit {
namespace {

std::string fixture() {
  const auto bytes = read_file(WARPSMITH_ELF_FIXTURE);
  EXPECT_TRUE(bytes.ok());
  return bytes.ok() ? *bytes : std::string();
}

TEST(ElfInspection, ReadsLibrariesAndSymbols) {
  const auto facts = inspect_elf_file(WARPSMITH_ELF_FIXTURE);
  ASSERT_TRUE(facts.ok()) << facts.error().message;
  EXPECT_TRUE(facts->needs("libc.so"));
  EXPECT_FALSE(facts->needs("libcublas"));
  EXPECT_TRUE(facts->takes("pthread_create"));
  EXPECT_TRUE(facts->takes("socket"));
  EXPECT_FALSE(facts->takes("fork"));
  EXPECT_TRUE(facts->gives("warpsmith_candidate"));
  EXPECT_TRUE(facts->gives("cudaEventElapsedTime"));
  EXPECT_FALSE(facts->gives("pthread_create"));
  EXPECT_TRUE(facts->runtime_is_static());
}

TEST(ElfInspection, RefusesOtherFiles) {
  for (const std::string& bytes : {std::string(), std::string("text"), std::string(200, '\0')}) {
    const auto facts = inspect_elf(bytes);
    ASSERT_FALSE(facts.ok());
    EXPECT_EQ(facts.error().kind, ErrorKind::bad_input);
  }
  EXPECT_FALSE(inspect_elf_file("/bin/true").ok() && inspect_elf_file("/bin/true")->gives("warpsmith_candidate"));
  EXPECT_FALSE(inspect_elf_file("/nonexistent").ok());
}

// No byte of the file is trusted: cut off anywhere, or changed anywhere, it is read or refused, and nothing worse.
TEST(ElfInspection, SurvivesBrokenFiles) {
  const std::string whole = fixture();
  ASSERT_GT(whole.size(), 64u);
  for (std::size_t size = 0; size < whole.size(); size += 61) {
    static_cast<void>(inspect_elf(std::string_view(whole).substr(0, size)).ok());
  }
  std::mt19937 random(1);
  int refused = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string broken = whole;
    for (int change = 0; change < 4; ++change) {
      const std::size_t limit = i % 2 == 0 ? 1024 : broken.size();
      broken[random() % std::min(limit, broken.size())] = static_cast<char>(random());
    }
    refused += inspect_elf(broken).ok() ? 0 : 1;
  }
  EXPECT_GT(refused, 0);
}

TEST(ElfFindings, NameWhatAKernelHasNoUseFor) {
  auto facts = inspect_elf_file(WARPSMITH_ELF_FIXTURE);
  ASSERT_TRUE(facts.ok());
  facts->needed.emplace_back("libcudart.so.13");  // so that its references count as its own
  const auto findings = judge_elf(*facts);
  const auto has = [&](const char* check, const char* words) {
    return std::any_of(findings.begin(), findings.end(), [&](const Finding& finding) {
      return finding.check == check && finding.severity == Severity::suspicious &&
             finding.detail.find(words) != std::string::npos;
    });
  };
  EXPECT_TRUE(has("threads", "pthread_create"));
  EXPECT_TRUE(has("network", "socket"));
  EXPECT_TRUE(has("tampering", "cudaEventElapsedTime"));
  EXPECT_FALSE(has("programs", ""));
  facts->needed.emplace_back("libcublasLt.so.13");
  const auto linked = judge_elf(*facts);
  EXPECT_TRUE(std::any_of(linked.begin(), linked.end(),
                          [](const Finding& finding) { return finding.check == "library-call"; }));
}

// A statically linked runtime refers to threads and sockets itself: that is nobody's fault.
TEST(ElfFindings, DoNotBlameAKernelForItsRuntime) {
  ElfFacts facts;
  facts.needed = {"libc.so.6"};
  facts.undefined = {"connect", "pthread_create", "socket"};
  facts.defined = {"warpsmith_candidate"};
  EXPECT_TRUE(judge_elf(facts).empty());
  facts.needed.emplace_back("libcudart.so.13");
  EXPECT_FALSE(judge_elf(facts).empty());
}

}  // namespace
}  // namespace warpsmith::audit
