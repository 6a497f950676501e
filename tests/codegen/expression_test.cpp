// The expression language: values against an evaluator written apart, errors with their column, hostile texts.
#include "codegen/expression.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <random>
#include <string>

namespace warpsmith {
namespace {

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
const ExpressionVariables kSizes = {
    .m = 1000, .n = 512, .k = 64, .lda = 64, .ldb = 512, .ldc = 513, .sms = 132, .a_k_major = 1, .b_k_major = 0};

std::int64_t value(const std::string& text, const ExpressionVariables& variables = kSizes) {
  const auto expression = Expression::parse(text);
  EXPECT_TRUE(expression.ok()) << text << ": " << expression.error().message;
  if (!expression) return -12345;
  const auto result = expression->evaluate(variables);
  EXPECT_TRUE(result.ok()) << text << ": " << result.error().message;
  return result ? *result : -12345;
}

std::string error(const std::string& text) {
  const auto expression = Expression::parse(text);
  if (!expression) {
    EXPECT_EQ(expression.error().kind, ErrorKind::bad_input);
    return expression.error().message;
  }
  const auto result = expression->evaluate(kSizes);
  return result ? "no error, but " + std::to_string(*result) : result.error().message;
}

TEST(Expression, NamesEveryVariable) {
  EXPECT_EQ(value("m"), 1000);
  EXPECT_EQ(value("n"), 512);
  EXPECT_EQ(value("k"), 64);
  EXPECT_EQ(value("lda"), 64);
  EXPECT_EQ(value("ldb"), 512);
  EXPECT_EQ(value("ldc"), 513);
  EXPECT_EQ(value("sms"), 132);
  EXPECT_EQ(value("a_k_major"), 1);
  EXPECT_EQ(value("b_k_major"), 0);
}

TEST(Expression, FollowsThePrecedencesOfC) {
  EXPECT_EQ(value("1 + 2 * 3"), 7);
  EXPECT_EQ(value("(1 + 2) * 3"), 9);
  EXPECT_EQ(value("10 - 4 - 3"), 3);
  EXPECT_EQ(value("100 / 5 / 2"), 10);
  EXPECT_EQ(value("2 * 7 % 4"), 2);
  EXPECT_EQ(value("-3 + 5"), 2);
  EXPECT_EQ(value("- -3"), 3);
  EXPECT_EQ(value("!0 + !5"), 1);
  EXPECT_EQ(value("1 + 1 == 2"), 1);
  EXPECT_EQ(value("1 < 2 == 1"), 1);
  EXPECT_EQ(value("1 <= 0"), 0);
  EXPECT_EQ(value("2 >= 2"), 1);
  EXPECT_EQ(value("2 > 2"), 0);
  EXPECT_EQ(value("3 != 3"), 0);
  EXPECT_EQ(value("0 && 0 || 1"), 1);
  EXPECT_EQ(value("1 || 0 && 0"), 1);
  EXPECT_EQ(value("0 ? 1 : 0 ? 2 : 3"), 3);
  EXPECT_EQ(value("m > 500 ? 1 + 1 : 9"), 2);
}

TEST(Expression, DividesLikeC) {
  EXPECT_EQ(value("-7 / 2"), -3);
  EXPECT_EQ(value("-7 % 2"), -1);
  EXPECT_EQ(value("7 / -1"), -7);
  EXPECT_EQ(value("7 % -1"), 0);
}

TEST(Expression, HasFunctions) {
  EXPECT_EQ(value("min(3, 2)"), 2);
  EXPECT_EQ(value("max(3, 2)"), 3);
  EXPECT_EQ(value("ceil_div(m, 128)"), 8);
  EXPECT_EQ(value("ceil_div(1024, 128)"), 8);
  EXPECT_EQ(value("ceil_div(0, 128)"), 0);
  EXPECT_EQ(value("round_up(m, 128)"), 1024);
  EXPECT_EQ(value("ceil_div(m,128)*ceil_div(n,min(n, 256))"), 16);
}

TEST(Expression, EvaluatesOnlyWhatDecides) {
  EXPECT_EQ(value("0 && 1 / 0"), 0);
  EXPECT_EQ(value("1 || 1 / 0"), 1);
  EXPECT_EQ(value("1 ? 2 : 1 / 0"), 2);
  EXPECT_EQ(value("0 ? 1 / 0 : 2"), 2);
}

TEST(Expression, RefusesWhatLeaves64Bits) {
  const std::string max = std::to_string(kMax);
  EXPECT_EQ(value(max), kMax);
  EXPECT_EQ(value("-" + max + " - 1"), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(error(max + " + 1"), "column 21: the value leaves 64 bits (9223372036854775807 and 1)");
  EXPECT_EQ(error("-" + max + " - 2").substr(0, 10), "column 22:");
  EXPECT_EQ(error(max + " * 2").substr(0, 10), "column 21:");
  EXPECT_EQ(error("(-" + max + " - 1) / -1").substr(0, 10), "column 28:");
  EXPECT_EQ(value("(-" + max + " - 1) % -1"), 0);
  EXPECT_EQ(error("-(-" + max + " - 1)").substr(0, 9), "column 1:");
  EXPECT_EQ(error("round_up(" + max + ", 2)").substr(0, 9), "column 1:");
  EXPECT_EQ(value("ceil_div(" + max + ", 2)"), kMax / 2 + 1);
  EXPECT_EQ(error("9223372036854775808"), "column 1: '9223372036854775808' is not a whole number below 2^63");
}

TEST(Expression, PointsAtTheColumn) {
  EXPECT_EQ(error("m / (k - 64)"), "column 3: division by zero");
  EXPECT_EQ(error("m % (k - 64)"), "column 3: division by zero");
  EXPECT_EQ(error("1 + ceil_div(m, 0)"), "column 5: 1000 and 0 are not accepted; accepted: x >= 0, y > 0");
  EXPECT_EQ(error("ceil_div(0 - 1, 4)"), "column 1: -1 and 4 are not accepted; accepted: x >= 0, y > 0");
  EXPECT_EQ(error("m + "), "column 5: the expression ends here; expected a number, a name or '('");
  EXPECT_EQ(error(""), "column 1: the expression ends here; expected a number, a name or '('");
  EXPECT_EQ(error("m = 3"), "column 3: '=' is not expected here; accepted: an operator or the end");
  EXPECT_EQ(error("(m + 3"), "column 7: expected ')' for the '(' at column 1");
  EXPECT_EQ(error("m ? 3"), "column 6: expected ':' for the '?' at column 3");
  EXPECT_EQ(error("min(3)"), "column 6: expected ',' of min(x, y)");
  EXPECT_EQ(error("min"), "column 4: expected '(' of min(x, y)");
  EXPECT_EQ(error("2 + * 3"), "column 5: '*' is not expected here; accepted: a number, a name or '('");
  EXPECT_EQ(error("64k"), "column 1: '64k' is not a whole number below 2^63");
  EXPECT_EQ(error("m & 3").substr(0, 9), "column 3:");
}

TEST(Expression, SuggestsTheNearestName) {
  const std::string message = error("m * ceildiv(n, 4)");
  EXPECT_TRUE(message.starts_with("column 5: unknown name 'ceildiv'; did you mean 'ceil_div'? accepted: m, n, k"))
      << message;
  EXPECT_EQ(error("wholly_else").find("did you mean"), std::string::npos);
}

TEST(Expression, LimitsLengthAndDepth) {
  EXPECT_EQ(error(std::string(2000, '1')), "an expression has at most 1000 characters");
  EXPECT_NE(error(std::string(400, '(') + "1" + std::string(400, ')')).find("nested too deeply"), std::string::npos);
  EXPECT_NE(error(std::string(900, '-') + "1").find("nested too deeply"), std::string::npos);
  std::string chain = "1";
  for (int i = 0; i < 400; ++i) chain += "+1";
  EXPECT_EQ(value(chain), 401);
}

// A random expression with its value by arithmetic in 128 bits; `fails` where that leaves 64 bits or divides by zero.
struct Sample {
  std::string text;
  __int128 value = 0;
  bool fails = false;
};

class Generator {
 public:
  explicit Generator(std::uint64_t seed) : random_(seed) {}

  Sample make(int depth) {
    if (depth == 0 || draw(5) == 0) return leaf();
    const Sample x = make(depth - 1), y = make(depth - 1);
    switch (draw(9)) {
      case 0:
        return combine(x, " + ", y, x.value + y.value);
      case 1:
        return combine(x, "-", y, x.value - y.value);
      case 2:
        return combine(x, " * ", y, x.value * y.value);
      case 3:
        return y.value == 0 ? failing(x, "/", y) : combine(x, "/", y, x.value / y.value);
      case 4:
        return y.value == 0 ? failing(x, " % ", y) : combine(x, " % ", y, x.value % y.value);
      case 5:
        return combine(x, "<=", y, x.value <= y.value);
      case 6:
        return combine(x, " != ", y, x.value != y.value);
      case 7: {
        Sample result = combine(x, "&&", y, x.value != 0 && y.value != 0);
        result.fails = x.fails || (x.value != 0 && y.fails);
        return result;
      }
      default: {
        Sample result{"(" + x.text + " ? " + y.text + " : 7)", x.value != 0 ? y.value : 7, false};
        result.fails = x.fails || (x.value != 0 && y.fails);
        return result;
      }
    }
  }

  std::uint64_t draw(std::uint64_t below) { return random_() % below; }

 private:
  Sample leaf() {
    switch (draw(6)) {
      case 0:
        return {"m", kSizes.m, false};
      case 1:
        return {"ldc", kSizes.ldc, false};
      case 2:
        return {std::to_string(kMax), kMax, false};
      default: {
        const auto number = static_cast<std::int64_t>(draw(20));
        return {std::to_string(number), number, false};
      }
    }
  }
  static Sample combine(const Sample& x, const std::string& operation, const Sample& y, __int128 result) {
    const bool outside = result > kMax || result < std::numeric_limits<std::int64_t>::min();
    return {"(" + x.text + operation + y.text + ")", outside ? 0 : result, x.fails || y.fails || outside};
  }
  static Sample failing(const Sample& x, const std::string& operation, const Sample& y) {
    return {"(" + x.text + operation + y.text + ")", 0, true};
  }

  std::mt19937_64 random_;
};

TEST(Expression, AgreesWithWiderArithmetic) {
  Generator generator(20260711);
  int failed = 0, right = 0;
  for (int i = 0; i < 20000; ++i) {
    const Sample sample = generator.make(4);
    if (sample.text.size() > 1000) continue;
    const auto expression = Expression::parse(sample.text);
    ASSERT_TRUE(expression.ok()) << sample.text << ": " << expression.error().message;
    const auto result = expression->evaluate(kSizes);
    ASSERT_EQ(result.ok(), !sample.fails) << sample.text << (result ? "" : ": " + result.error().message);
    if (!result) {
      ++failed;
      EXPECT_TRUE(result.error().message.starts_with("column ")) << result.error().message;
      continue;
    }
    ++right;
    ASSERT_EQ(*result, static_cast<std::int64_t>(sample.value)) << sample.text;
  }
  EXPECT_GT(right, 5000);
  EXPECT_GT(failed, 500);
}

// Whatever the text, there is a value or a one-line error; the sanitizer build watches.
TEST(Expression, SurvivesAnyText) {
  const std::string alphabet = "mnkabdlcs_0123456789+-*/%<>=!&|?:(), \t\n\x01\xff minmaxceil_divround_up";
  Generator generator(7);
  for (int i = 0; i < 50000; ++i) {
    std::string text;
    for (std::uint64_t length = generator.draw(24); length > 0; --length) {
      text += alphabet[generator.draw(alphabet.size())];
    }
    const auto expression = Expression::parse(text);
    if (expression) {
      static_cast<void>(expression->evaluate(kSizes).ok());
    } else {
      ASSERT_FALSE(expression.error().message.empty());
      ASSERT_EQ(expression.error().message.find_first_of("\n\x01\xff"), std::string::npos) << text;
    }
  }
}

}  // namespace
}  // namespace warpsmith
