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
    if (random() % 2 == 0) problem.scaling = Scaling::alpha_beta;
    if (random() % 4 == 0) problem.lda = problem.a_cols() + static_cast<std::int64_t>(random() % 64);
    if (random() % 4 == 0) problem.ldb = problem.b_cols() + static_cast<std::int64_t>(random() % 64);
    if (random() % 4 == 0) problem.ldc = problem.n + static_cast<std::int64_t>(random() % 64);
    if (!check_leading_dimensions(problem)) continue;  // beyond 2^31 elements
    const auto parsed = parse_problem(to_string(problem));
    ASSERT_TRUE(parsed.ok()) << parsed.error().message;
    EXPECT_EQ(*parsed, problem);
  }
}

TEST(Problem, TextForm) {
  const Problem problem{4096, 4096, 1024, Layout::tn, ElementType::f16, AccumulatorType::f32};
  EXPECT_EQ(to_string(problem), "4096x4096x1024 tn f16 f32");
  Problem padded{.m = 1024, .n = 512, .k = 256, .layout = Layout::tn, .scaling = Scaling::alpha_beta};
  padded.lda = padded.ldb = 264;
  padded.ldc = 520;
  EXPECT_EQ(to_string(padded), "1024x512x256 tn f16 f32 scaled ld=264,264,520");
  padded.scaling = Scaling::none;
  padded.lda = 0;
  EXPECT_EQ(to_string(padded), "1024x512x256 tn f16 f32 ld=256,264,520");
}

TEST(Problem, PackedLeadingDimensionsAreNotWritten) {
  Problem problem{.m = 8, .n = 16, .k = 24};
  const Problem plain = problem;
  problem.lda = 24;
  problem.ldc = 16;
  EXPECT_EQ(problem, plain);
  EXPECT_EQ(to_string(problem), "8x16x24 nn f16 f32");
  EXPECT_EQ(parse_problem("8x16x24 ld=0,16,0").value(), plain);
  problem.ldc = 17;
  EXPECT_FALSE(problem == plain);
}

TEST(Problem, LeadingDimensionsAreThoseOfTheOperandsAsStored) {
  const Problem problem = parse_problem("2x3x5 tt ld=7,9,4").value();  // A is 5 x 2, B is 3 x 5, C is 2 x 3
  EXPECT_EQ(problem.a_ld(), 7);
  EXPECT_EQ(problem.b_ld(), 9);
  EXPECT_EQ(problem.c_ld(), 4);
  EXPECT_EQ(problem.a_extent(), 4 * 7 + 2);
  EXPECT_EQ(problem.b_extent(), 2 * 9 + 5);
  EXPECT_EQ(problem.c_extent(), 4 + 3);
  EXPECT_FALSE(problem.packed());
  const Problem packed = parse_problem("2x3x5 tt").value();
  EXPECT_EQ(packed.a_ld(), 2);
  EXPECT_EQ(packed.b_ld(), 5);
  EXPECT_EQ(packed.c_extent(), 6);
}

TEST(Problem, RefusesLeadingDimensionsThatDoNotFit) {
  expect_refused(parse_problem("8x16x24 tn ld=23,24,16").error(),
                 "leading dimension 23 of A is smaller than its 24 columns; accepted: 24 or more");
  expect_refused(parse_problem("8x16x24 nn ld=24,15,16").error(), "15 of B is smaller than its 16 columns");
  expect_refused(parse_problem("8x16x24 ld=24,16,15").error(), "15 of C");
  EXPECT_TRUE(parse_problem("8x16x24 ld=306783374,0,0").ok());  // 7 gaps and 24 elements: below 2^31
  expect_refused(parse_problem("8x16x24 ld=306783375,0,0").error(), "more than 2147483648 elements");
  for (const char* text :
       {"8x16x24 ld=", "8x16x24 ld=1", "8x16x24 ld=24,16", "8x16x24 ld=24,16,16,16", "8x16x24 ld=24,,16",
        "8x16x24 ld=,24,16", "8x16x24 ld=-24,16,16", "8x16x24 ld=2x,16,16", "8x16x24 ld=99999999999999999999,16,16",
        "ld=24,16,16", "scaled", "8x16x24 ld=0,0,0 scaled", "8x16x24 scaled nn", "8x16x24 scaled scaled"}) {
    const auto problem = parse_problem(text);
    ASSERT_FALSE(problem.ok()) << text;
    EXPECT_EQ(problem.error().kind, ErrorKind::bad_input);
  }
}

TEST(Problem, TrailingWordsTakeDefaults) {
  const Problem defaults{.m = 8, .n = 16, .k = 24};
  EXPECT_EQ(parse_problem("8x16x24").value(), defaults);
  EXPECT_EQ(parse_problem("8x16x24 nn").value(), defaults);
  EXPECT_EQ(parse_problem("8x16x24 nn f16").value(), defaults);
  EXPECT_EQ(parse_problem("8x16x24 tt bf16").value().element, ElementType::bf16);
  EXPECT_TRUE(parse_problem("8x16x24 scaled").value().scaled());
  EXPECT_TRUE(parse_problem("8x16x24 tt scaled ld=0,0,20").value().scaled());
  EXPECT_FALSE(parse_problem("8x16x24 tt ld=0,0,20").value().scaled());
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
  const std::string alphabet = "0123456789xX_ \t-+.ntfb16e,*sld=\xff";
  for (int i = 0; i < 50'000; ++i) {
    std::string text = i % 2 == 0   ? ""
                       : i % 4 == 1 ? "4096x4096x1024 tn f16 f32"
                                    : "64x64x24 tn f16 f32 scaled ld=64,64,72";
    for (std::uint64_t edits = 1 + random() % 8; edits > 0; --edits) {
      const char byte = random() % 8 == 0 ? static_cast<char>(random()) : alphabet[random() % alphabet.size()];
      text.insert(text.begin() + static_cast<std::ptrdiff_t>(random() % (text.size() + 1)), byte);
      if (random() % 2 == 0) text.erase(random() % text.size(), 1 + random() % 3);
    }
    const auto problem = parse_problem(text);
    if (problem) {
      EXPECT_EQ(parse_problem(to_string(*problem)).value(), *problem);
      EXPECT_GE(problem->m, 1);
      EXPECT_LE(problem->a_extent(), kMaxElements);
      EXPECT_GE(problem->c_ld(), problem->n);
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
  EXPECT_EQ((Problem{.m = 2, .n = 3, .k = 5, .scaling = Scaling::alpha_beta}).bytes(), 2 * (10 + 15 + 2 * 6));
  // Beyond 64-bit integers nothing overflows: counts are floating-point.
  const Problem large{.m = kMaxDimension, .n = kMaxDimension, .k = kMaxDimension};
  EXPECT_EQ(large.flops(), 0x1p61);
}

}  // namespace
}  // namespace warpsmith
