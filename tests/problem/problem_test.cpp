// Problems and shapes: text forms, limits, counts.
#include "problem/problem.h"

#include <gtest/gtest.h>

#include <random>

#include "base/text.h"

namespace warpsmith {
namespace {

constexpr Layout kLayouts[] = {Layout::tn, Layout::nn, Layout::tt, Layout::nt};

void expect_refused(const Error& error, const std::string& words) {
  EXPECT_EQ(error.kind, ErrorKind::bad_input);
  EXPECT_NE(error.message.find(words), std::string::npos) << error.message;
  EXPECT_EQ(error.message.find('\n'), std::string::npos) << error.message;
  EXPECT_LE(error.message.size(), 300u);
}

TEST(Shape, AcceptsAllSpellings) {
  const Shape expected{64, 128, 4096};
  for (const char* text : {"64 128 4096", "64x128x4096", "64_128_4096", "64X128X4096", "  64  128\t4096 "}) {
    const auto shape = parse_shape(text);
    ASSERT_TRUE(shape.ok()) << shape.error().message;
    EXPECT_EQ(*shape, expected) << text;
  }
}

TEST(Shape, RefusesWhatIsNoShape) {
  for (const char* text : {"", "   ", "64", "64x64", "64x64x64x64", "hello"}) {
    const auto shape = parse_shape(text);
    ASSERT_FALSE(shape.ok()) << text;
    expect_refused(shape.error(), "MxNxK");
  }
}

TEST(Shape, RefusesSizesThatAreNoNumbers) {
  for (const char* text :
       {"a 64 64", "64 6.5 64", "64 64 1e3", "64 64 64;", "0x10 x 8 x 8 8", "64 64 ++5", "64 64 6\n4"}) {
    EXPECT_FALSE(parse_shape(text).ok()) << text;
  }
  expect_refused(parse_shape("64 four 64").error(), "size N = 'four' is not a whole number");
}

TEST(Shape, RefusesSizesOutOfRange) {
  expect_refused(parse_shape("0 64 64").error(), "size M = 0 is out of range");
  expect_refused(parse_shape("64 -3 64").error(), "size N = -3 is out of range");
  expect_refused(parse_shape("64 64 1048577").error(), "1 to 1048576");
  expect_refused(parse_shape("99999999999999999999999999 64 64").error(), "out of range");
  expect_refused(parse_shape("64 64 -99999999999999999999999999").error(), "out of range");
  expect_refused(parse_shape(std::string(10'000, '9') + " 64 64").error(), "out of range");
  EXPECT_TRUE(parse_shape("1 1 1").ok());
  EXPECT_TRUE(parse_shape("1048576 1 2048").ok());
}

TEST(Shape, RefusesMatricesWithTooManyElements) {
  EXPECT_TRUE(parse_shape("32768 65536 1").ok());  // exactly 2^31
  expect_refused(parse_shape("32769 65536 1").error(), "matrix C of 32769 x 65536");
  expect_refused(parse_shape("1048576 1 1048576").error(), "matrix A");
  expect_refused(parse_shape("1 1048576 1048576").error(), "matrix B");
}

TEST(Problem, RoundTrips) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 2000; ++i) {
    Problem problem;
    problem.m = 1 + static_cast<std::int64_t>(random() % 40'000);
    problem.n = 1 + static_cast<std::int64_t>(random() % 40'000);
    problem.k = 1 + static_cast<std::int64_t>(random() % 40'000);
    problem.layout = kLayouts[random() % 4];
    problem.element = random() % 2 == 0 ? ElementType::f16 : ElementType::bf16;
    problem.accumulator = random() % 2 == 0 ? AccumulatorType::f32 : AccumulatorType::f16;
    const auto parsed = parse_problem(to_string(problem));
    ASSERT_TRUE(parsed.ok()) << parsed.error().message;
    EXPECT_EQ(*parsed, problem);
  }
}

TEST(Problem, TextForm) {
  const Problem problem{4096, 4096, 1024, Layout::tn, ElementType::f16, AccumulatorType::f32};
  EXPECT_EQ(to_string(problem), "4096x4096x1024 tn f16 f32");
}

TEST(Problem, TrailingWordsTakeDefaults) {
  const Problem defaults{.m = 8, .n = 16, .k = 24};
  EXPECT_EQ(parse_problem("8x16x24").value(), defaults);
  EXPECT_EQ(parse_problem("8x16x24 nn").value(), defaults);
  EXPECT_EQ(parse_problem("8x16x24 nn f16").value(), defaults);
  EXPECT_EQ(parse_problem("8x16x24 tt bf16").value().element, ElementType::bf16);
}

TEST(Problem, RefusesUnknownWords) {
  expect_refused(parse_problem("8x8x8 xx").error(), "unknown layout 'xx'; accepted: tn, nn, tt, nt");
  expect_refused(parse_problem("8x8x8 nn f64").error(), "unknown element type 'f64'; accepted: f16, bf16");
  expect_refused(parse_problem("8x8x8 nn f16 f8").error(), "unknown accumulator type 'f8'; accepted: f32, f16");
  expect_refused(parse_problem("8x8x8 nn f16 f32 more").error(), "is not a problem");
  expect_refused(parse_problem("").error(), "is not a problem");
  expect_refused(parse_problem("0x8x8 nn").error(), "out of range");
}

// Whatever bytes come in, the answer is a problem that prints back or an error.
TEST(Problem, ParserSurvivesRandomText) {
  std::mt19937_64 random(2);
  const std::string alphabet = "0123456789xX_ \t-+.ntfb16e,*\xff";
  for (int i = 0; i < 50'000; ++i) {
    std::string text = i % 2 == 0 ? "" : "4096x4096x1024 tn f16 f32";
    for (std::uint64_t edits = 1 + random() % 8; edits > 0; --edits) {
      const char byte = random() % 8 == 0 ? static_cast<char>(random()) : alphabet[random() % alphabet.size()];
      text.insert(text.begin() + static_cast<std::ptrdiff_t>(random() % (text.size() + 1)), byte);
      if (random() % 2 == 0) text.erase(random() % text.size(), 1 + random() % 3);
    }
    const auto problem = parse_problem(text);
    if (problem) {
      EXPECT_EQ(parse_problem(to_string(*problem)).value(), *problem);
      EXPECT_GE(problem->m, 1);
      EXPECT_LE(problem->m * problem->k, kMaxElements);
    } else {
      EXPECT_LE(problem.error().message.size(), 300u);
      EXPECT_EQ(problem.error().message, printable(problem.error().message, 300)) << "one line of plain text";
    }
  }
}

TEST(Problem, OperandsAsStored) {
  Problem problem{.m = 2, .n = 3, .k = 5, .layout = Layout::nn};
  const auto stored = [&](Layout layout) {
    problem.layout = layout;
    return std::vector<std::int64_t>{problem.a_rows(), problem.a_cols(), problem.b_rows(), problem.b_cols()};
  };
  EXPECT_EQ(stored(Layout::nn), (std::vector<std::int64_t>{2, 5, 5, 3}));
  EXPECT_EQ(stored(Layout::tn), (std::vector<std::int64_t>{2, 5, 3, 5}));
  EXPECT_EQ(stored(Layout::tt), (std::vector<std::int64_t>{5, 2, 3, 5}));
  EXPECT_EQ(stored(Layout::nt), (std::vector<std::int64_t>{5, 2, 5, 3}));
}

TEST(Problem, CountsFlopsAndBytes) {
  const Problem small{.m = 2, .n = 3, .k = 5};
  EXPECT_EQ(small.flops(), 60);
  EXPECT_EQ(small.bytes(), 2 * (10 + 15 + 6));
  // Beyond 64-bit integers nothing overflows: counts are floating-point.
  const Problem large{.m = kMaxDimension, .n = kMaxDimension, .k = kMaxDimension};
  EXPECT_EQ(large.flops(), 0x1p61);
}

}  // namespace
}  // namespace warpsmith
