// Candidates for a task over the real worker: an honest one is accepted, and everything else gets the verdict that it
// deserves.
#include <cstdlib>
#include <string>

#include "fixture.h"

namespace warpsmith::task {
namespace {

std::string gate_of(const Verdict& verdict) {
  const auto* wrong = std::get_if<verdict::Wrong>(&verdict.outcome);
  return wrong == nullptr ? verdict.describe() : wrong->gate.gate;
}

TEST_F(SessionTest, AcceptsAnHonestKernel) {
  const Verdict verdict = evaluate_body("honest(t, t.count);");
  ASSERT_NE(verdict.accepted(), nullptr) << verdict.describe();
  EXPECT_GT(verdict.accepted()->measurement.cold.median_us, 0);
  EXPECT_GT(verdict.accepted()->measurement.cold.launches_per_sample, 1);
  EXPECT_GT(verdict.accepted()->measurement.warm.median_us, 0);
  EXPECT_GT(verdict.accepted()->measurement.warm.samples, 0);
  EXPECT_GT(verdict.accepted()->measurement.warm.launches_per_sample, 1);
  // Every gate of every setting, then the timed outputs.
  ASSERT_EQ(verdict.gates.size(), 3 * 7 + 1U);
  EXPECT_EQ(verdict.gates.front().gate, "coverage");
  EXPECT_EQ(verdict.gates.back().gate, "timed-outputs");
  EXPECT_NE(verdict.gates[7].detail.find("count=333 factor=-2"), std::string::npos) << verdict.gates[7].detail;
}

TEST_F(SessionTest, RejectsAKernelThatIsRightAtOneSettingOnly) {
  const Verdict size = evaluate_body("honest(t, 5000);");
  EXPECT_EQ(size.accepted(), nullptr) << size.describe();
  const Verdict small = evaluate_body("honest(t, 100);");
  EXPECT_EQ(gate_of(small), "coverage");
  EXPECT_NE(small.describe().find("count=333"), std::string::npos) << small.describe();
  const Verdict factor = evaluate_body("Arguments u = t; u.factor = 0.5; honest(u, t.count);");
  EXPECT_EQ(gate_of(factor), "bound/declared");
  EXPECT_NE(factor.describe().find("count=333 factor=-2"), std::string::npos) << factor.describe();
  const Verdict timed_only = evaluate_body("Arguments u = t; u.factor = 1; honest(u, t.count);");
  EXPECT_EQ(gate_of(timed_only), "bound/declared");
  EXPECT_NE(timed_only.describe().find("count=100 factor=0.5"), std::string::npos) << timed_only.describe();
}

TEST_F(SessionTest, ACandidateClaimsEverySettingOrIsIllegal) {
  const Verdict verdict = evaluate_body("honest(t, t.count);", R"(, "requires": ["count >= 333"])");
  ASSERT_TRUE(std::holds_alternative<verdict::Illegal>(verdict.outcome)) << verdict.describe();
  EXPECT_NE(verdict.describe().find("/requires/0: 'count >= 333' does not hold"), std::string::npos)
      << verdict.describe();
}

TEST_F(SessionTest, SeesWhatIsMissing) {
  EXPECT_EQ(gate_of(evaluate_body("honest(t, t.count - 1);")), "coverage");
  EXPECT_EQ(gate_of(evaluate_body("")), "coverage");
  EXPECT_EQ(gate_of(evaluate_body("std::memset(t.y, 0, 2 * t.count);")), "bound/declared");
}

TEST_F(SessionTest, SeesWritesThatGoAstray) {
  const Verdict behind = evaluate_body("honest(t, t.count); t.y[t.count] = 1;");
  EXPECT_EQ(gate_of(behind), "coverage");
  EXPECT_NE(behind.describe().find("memory behind y was written"), std::string::npos) << behind.describe();
  const Verdict input = evaluate_body("honest(t, t.count); const_cast<f16*>(t.x)[3] = 1;");
  EXPECT_EQ(gate_of(input), "coverage");
  EXPECT_NE(input.describe().find("input x was changed at byte 6"), std::string::npos) << input.describe();
  const Verdict workspace =
      evaluate_body("honest(t, t.count); static_cast<char*>(t.workspace)[16] = 1;", R"(, "workspace_bytes": 16)");
  EXPECT_EQ(gate_of(workspace), "coverage");
}

TEST_F(SessionTest, WorkspacesAreFoundPoisonedOrCleared) {
  const std::string sum =
      "char* w = static_cast<char*>(t.workspace); if (w[0] != 0 || w[15] != 0) return; honest(t, t.count);";
  EXPECT_EQ(gate_of(evaluate_body(sum, R"(, "workspace_bytes": 16)")), "coverage");
  const Verdict cleared = evaluate_body(sum, R"(, "workspace_bytes": 16, "zero_workspace": true)");
  EXPECT_NE(cleared.accepted(), nullptr) << cleared.describe();
  const Verdict dirty = evaluate_body("static_cast<char*>(t.workspace)[3] = 1; honest(t, t.count);",
                                      R"(, "workspace_bytes": 16, "zero_workspace": true)");
  EXPECT_EQ(gate_of(dirty), "coverage");
}

TEST_F(SessionTest, SeesInfinitiesThatAreClipped) {
  EXPECT_EQ(gate_of(evaluate_body("honest(t, t.count); for (std::int64_t i = 0; i < t.count; ++i) "
                                  "if (!((float)t.y[i] < 65504)) t.y[i] = 65504;")),
            "bound/special");
}

TEST_F(SessionTest, SeesResultsThatAreKept) {
  // A table by address, filled at the first call, on the heap where no variable but the pointer shows it.
  const Verdict cached = evaluate_body(R"(
    static f16* kept; static const void* of;
    if (of != t.x) { honest(t, t.count); kept = (f16*)realloc(kept, 2 * t.count); std::memcpy(kept, t.y, 2 * t.count); of = t.x; }
    else std::memcpy(t.y, kept, 2 * t.count);)");
  EXPECT_EQ(gate_of(cached), "state") << cached.describe();
  const Verdict counted = evaluate_body("static int calls; ++calls; honest(t, t.count);");
  EXPECT_EQ(gate_of(counted), "state");
}

TEST_F(SessionTest, SeesACallerThatIsSkippedWhileItIsTimed) {
  // Counts on the heap, where the gates do not look, and stops working once the gates are over.
  const Verdict lazy = evaluate_body(R"(
    static int* calls; if (!calls) { calls = (int*)calloc(1, sizeof(int)); }
    if (++*calls > 12) return;
    honest(t, t.count);)");
  EXPECT_EQ(gate_of(lazy), "timed-outputs") << lazy.describe();
}

TEST_F(SessionTest, SeesWorkThatIsSkippedOnWarmOperandsAlone) {
  // Which inputs and outputs the last call had stands on the heap; the same inputs with other outputs are a warm batch.
  const std::string last = R"(
    static const void** last; if (!last) last = (const void**)calloc(2, sizeof(void*));
    const bool warm = last[0] == t.x && last[1] != t.y;
    last[0] = t.x; last[1] = t.y;)";
  const Verdict skipped = evaluate_body(last + "if (!warm) honest(t, t.count);");
  EXPECT_EQ(gate_of(skipped), "timed-outputs") << skipped.describe();
  const Verdict honest = evaluate_body(last + "honest(t, t.count); (void)warm;");
  EXPECT_NE(honest.accepted(), nullptr) << honest.describe();
}

TEST_F(SessionTest, SeesResultsThatComeLater) {
  // The call returns at once; a thread does the work when the clock has stopped, but then its process is stopped too.
  const Verdict late = evaluate("#include <thread>\n" + std::string(kHonest) +
                                "extern \"C\" void scale(const Arguments& t) {\n"
                                "  std::thread([t] { usleep(3000); honest(t, t.count); }).detach();\n}\n");
  EXPECT_EQ(gate_of(late), "coverage") << late.describe();
}

// Forty times the work: what a candidate saves shows.
constexpr const char* kSlow = R"(
static void slow(const Arguments& t) { for (volatile int n = 0; n < 40; ++n) honest(t, t.count); }
)";

// What the candidate is said to take, beside one that does the same work and saves nothing; 1: it was caught.
struct Share {
  double cold = 1, warm = 1;
};
Share share_of(const Verdict& verdict, const Verdict& honest) {
  EXPECT_NE(honest.accepted(), nullptr) << honest.describe();
  const auto* error = std::get_if<verdict::CompileError>(&verdict.outcome);
  EXPECT_EQ(error, nullptr) << (error == nullptr ? "" : error->message);
  if (verdict.accepted() == nullptr || honest.accepted() == nullptr) return {};
  const Measurement &one = verdict.accepted()->measurement, &other = honest.accepted()->measurement;
  return {one.cold.median_us / other.cold.median_us, one.warm.median_us / other.warm.median_us};
}

TEST_F(SessionTest, ResultsThatAreKnownByTheirInputsSaveNothing) {
  const std::string prefix = std::string(kHonest) + kSlow;
  const Verdict honest = evaluate(prefix + "extern \"C\" void scale(const Arguments& t) { slow(t); }\n");
  // A table on the heap, found by a few bytes of the inputs; what it holds is always right.
  const Verdict cached = evaluate(prefix + R"(
    struct Known { std::uint64_t key; f16* y; };
    static Known* known;
    extern "C" void scale(const Arguments& t) {
      if (!known) known = (Known*)calloc(1 << 16, sizeof(Known));
      std::uint64_t key = t.count;
      for (std::int64_t i = 0; i < t.count; i += t.count / 16) {
        std::uint16_t bits; std::memcpy(&bits, t.x + i, 2);
        key = (key ^ bits) * 0x9e3779b97f4a7c15ull; key ^= key >> 29;
      }
      Known& here = known[key & 0xffff];
      if (here.y && here.key == key) { std::memcpy(t.y, here.y, 2 * t.count); return; }
      slow(t);
      here = {key, (f16*)realloc(here.y, 2 * t.count)};
      std::memcpy(here.y, t.y, 2 * t.count);
    })");
  EXPECT_GT(share_of(cached, honest).cold, 0.6) << cached.describe() << " beside " << honest.describe();
}

TEST_F(SessionTest, WorkOutsideTheClockIsImpossible) {
  const std::string prefix = "#include <signal.h>\n#include <initializer_list>\n" + std::string(kHonest) + kSlow;
  const Verdict honest = evaluate(prefix + "extern \"C\" void scale(const Arguments& t) { slow(t); }\n");
  // Whenever the process may go on, calls that were made before are made again where somebody has touched what they
  // left; the call itself then finds its work done.
  const Verdict early = evaluate(prefix + R"(
    struct Call { Arguments t; std::uint64_t mark; };
    static Call* calls;
    static int* count;
    static std::uint64_t mark_of(const Arguments& t) {
      std::uint64_t mark = t.count;
      for (const f16* data : {t.x, static_cast<const f16*>(t.y)}) {
        for (std::int64_t i = 0; i + 4 <= t.count; i += 4) {
          std::uint64_t bits; std::memcpy(&bits, data + i, 8);
          mark = (mark ^ bits) * 0x9e3779b97f4a7c15ull; mark ^= mark >> 29;
        }
      }
      return mark;
    }
    static void go_on(int) {
      for (int i = 0; i < *count; ++i) {
        if (mark_of(calls[i].t) == calls[i].mark) continue;
        slow(calls[i].t);
        calls[i].mark = mark_of(calls[i].t);
      }
    }
    extern "C" void scale(const Arguments& t) {
      if (!calls) {
        calls = (Call*)calloc(4096, sizeof(Call));
        count = (int*)calloc(1, sizeof(int));
        struct sigaction action = {};
        action.sa_handler = go_on;
        action.sa_flags = SA_RESTART;
        sigaction(SIGCONT, &action, nullptr);
      }
      int i = 0;
      while (i < *count && (calls[i].t.y != t.y || calls[i].t.x != t.x)) ++i;
      if (i < *count && mark_of(t) == calls[i].mark) return;
      slow(t);
      if (i == *count && i < 4095) ++*count;
      calls[i] = {t, mark_of(t)};
    })");
  const Share share = share_of(early, honest);
  EXPECT_GT(share.cold, 0.6) << early.describe() << " beside " << honest.describe();
  EXPECT_GT(share.warm, 0.6) << early.describe() << " beside " << honest.describe();
}

TEST_F(SessionTest, SeesBitsThatVary) {
  // Two neighbouring results are both within the bound; which one is written depends on the count of calls.
  const std::string body = R"(
    static int* calls; if (!calls) { calls = (int*)calloc(1, sizeof(int)); }
    honest(t, t.count);
    const float error = ++*calls % 2 ? 9e-7f : -9e-7f;
    for (std::int64_t i = 0; i < t.count; ++i) t.y[i] = static_cast<f16>((float)t.factor * (float)t.x[i] + t.offset[0] + error);)";
  EXPECT_EQ(gate_of(evaluate_body(body)), "repeatability");
  const Verdict declared = evaluate_body(body, R"(, "order_nondeterministic": "a test")");
  EXPECT_NE(declared.accepted(), nullptr) << declared.describe();
}

TEST_F(SessionTest, ACrashCostsNothingElse) {
  const Verdict crash = evaluate_body("*reinterpret_cast<volatile int*>(8) = 1;");
  EXPECT_TRUE(std::holds_alternative<verdict::Crashed>(crash.outcome)) << crash.describe();
  const Verdict exit = evaluate_body("_exit(0);");
  EXPECT_TRUE(std::holds_alternative<verdict::Crashed>(exit.outcome)) << exit.describe();
  EXPECT_NE(evaluate_body("honest(t, t.count);").accepted(), nullptr);
}

TEST_F(SessionTest, AHangIsTimedOut) {
  const Verdict hang = evaluate_body("for (volatile int i = 0; ; ++i) {}");
  EXPECT_TRUE(std::holds_alternative<verdict::TimedOut>(hang.outcome)) << hang.describe();
  EXPECT_NE(evaluate_body("honest(t, t.count);").accepted(), nullptr);
}

TEST_F(SessionTest, AKilledWorkerLeavesNothingBehind) {
  const auto temporary = directory_ / "temporary";
  std::filesystem::create_directories(temporary);
  const char* before = std::getenv("TMPDIR");
  const std::string kept = before == nullptr ? "" : before;
  setenv("TMPDIR", temporary.c_str(), 1);
  {
    const auto session = open(directory_ / "scale");
    ASSERT_NE(session, nullptr);
    const Verdict hang =
        session
            ->evaluate(candidate("extern \"C\" void scale(const Arguments&) { for (volatile int i = 0;; ++i) {} }\n"),
                       0, {})
            .verdict;
    EXPECT_TRUE(std::holds_alternative<verdict::TimedOut>(hang.outcome)) << hang.describe();
    EXPECT_TRUE(std::filesystem::is_empty(temporary));
  }
  EXPECT_TRUE(std::filesystem::is_empty(temporary));
  if (before == nullptr) {
    unsetenv("TMPDIR");
  } else {
    setenv("TMPDIR", kept.c_str(), 1);
  }
}

TEST_F(SessionTest, ACandidateReachesNothingOfTheMachine) {
  // Each is right only if what it tries works: then it would be accepted.
  const auto tries = [&](const std::string& condition) {
    return evaluate_body("if (" + condition + ") honest(t, t.count);");
  };
  const std::string secret = (directory_ / "secret").string();
  ASSERT_TRUE(write_file_atomic(secret, "s").ok());
  EXPECT_EQ(tries("open(\"" + secret + "\", O_RDONLY) >= 0").accepted(), nullptr);
  EXPECT_EQ(tries("open(\"" + secret + "2\", O_WRONLY | O_CREAT, 0600) >= 0").accepted(), nullptr);
  EXPECT_EQ(tries("fork() > 0").accepted(), nullptr);
  EXPECT_EQ(evaluate("#include <sys/socket.h>\n" + std::string(kHonest) +
                     "extern \"C\" void scale(const Arguments& t) { if (socket(2, 1, 0) >= 0) honest(t, t.count); }")
                .accepted(),
            nullptr);
  EXPECT_FALSE(std::filesystem::exists(secret + "2"));
}

TEST_F(SessionTest, TellsWhatTheCompilerSays) {
  const Verdict syntax = evaluate_body("honest(t, t.cuont);");
  ASSERT_TRUE(std::holds_alternative<verdict::CompileError>(syntax.outcome)) << syntax.describe();
  const std::string message = std::get<verdict::CompileError>(syntax.outcome).message;
  EXPECT_NE(message.find("cuont"), std::string::npos) << message;
  const Verdict include = evaluate("#include \"/etc/passwd\"\n");
  EXPECT_TRUE(std::holds_alternative<verdict::CompileError>(include.outcome)) << include.describe();
  const Verdict entry = evaluate("extern \"C\" void other(const Arguments&) {}\n");
  EXPECT_TRUE(std::holds_alternative<verdict::Crashed>(entry.outcome)) << entry.describe();
  EXPECT_NE(entry.describe().find("no extern \"C\" function 'scale'"), std::string::npos) << entry.describe();
}

TEST_F(SessionTest, ACudaReferenceNeedsAGpu) {
  const auto other = directory_ / "cuda";
  std::filesystem::create_directories(other);
  std::string text = *read_file(directory_ / "scale" / "task.toml");
  text.replace(text.find("reference.cpp"), 13, "reference.cu");
  ASSERT_TRUE(write_file_atomic(other / "task.toml", text).ok());
  ASSERT_TRUE(write_file_atomic(other / "reference.cu", "").ok());
  EXPECT_FALSE(load_task(other).ok());  // its descriptor is missing
  ASSERT_TRUE(write_file_atomic(other / "reference.json", "{}").ok());
  const auto session = open(other);
  ASSERT_NE(session, nullptr);
  const auto form = session->parse("extern \"C\" void scale(const Arguments&) {}",
                                   R"({"warpsmith_candidate": 1, "source": "scale.cpp", "entry": "scale"})");
  ASSERT_TRUE(form.ok());
  const Verdict verdict = session->evaluate(*form, 0, {}).verdict;
  EXPECT_TRUE(std::holds_alternative<verdict::Failed>(verdict.outcome)) << verdict.describe();
  EXPECT_NE(verdict.describe().find("needs a GPU"), std::string::npos) << verdict.describe();
}

TEST_F(SessionTest, AReferenceThatIsNoneIsTheUsersFault) {
  const auto other = directory_ / "other";
  std::filesystem::create_directories(other);
  std::filesystem::copy(directory_ / "scale" / "task.toml", other / "task.toml");
  ASSERT_TRUE(
      write_file_atomic(other / "reference.cpp", "extern \"C\" void reference(const Arguments& t) { t.z[0]; }").ok());
  auto task = load_task(other);
  ASSERT_TRUE(task.ok());
  SessionOptions options;
  options.compiler.cache = directory_ / "cache";
  const auto refused = TaskSession::open(*task, options);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::bad_input);
  ASSERT_TRUE(
      write_file_atomic(other / "reference.cpp", "extern \"C\" void reference(const Arguments& t) { t.y[0] = 0; }")
          .ok());
  const auto lazy = open(other);
  ASSERT_NE(lazy, nullptr);
  const auto form = lazy->parse("extern \"C\" void scale(const Arguments&) {}",
                                R"({"warpsmith_candidate": 1, "source": "scale.cpp", "entry": "scale"})");
  ASSERT_TRUE(form.ok());
  const Verdict verdict = lazy->evaluate(*form, 0, {}).verdict;
  EXPECT_TRUE(std::holds_alternative<verdict::Failed>(verdict.outcome)) << verdict.describe();
  EXPECT_NE(verdict.describe().find("leaves elements of y unwritten"), std::string::npos) << verdict.describe();
}

}  // namespace
}  // namespace warpsmith::task
