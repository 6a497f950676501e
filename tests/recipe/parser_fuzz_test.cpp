// The recipe parser against random bytes, damaged recipes and cut ones: it answers with a recipe that prints back or
// with a one-line error, and never falls over.
#include <gtest/gtest.h>

#include <random>

#include "base/text.h"
#include "machines.h"
#include "recipe/recipe.h"

namespace warpsmith {
namespace {

void check(const std::string& text) {
  const auto recipe = parse_recipe(text);
  if (recipe) {
    const auto again = parse_recipe(to_string(*recipe));
    ASSERT_TRUE(again.ok()) << to_string(*recipe);
    EXPECT_EQ(*again, *recipe);
    return;
  }
  const std::string& message = recipe.error().message;
  EXPECT_EQ(recipe.error().kind, ErrorKind::bad_input);
  EXPECT_FALSE(message.empty());
  EXPECT_LE(message.size(), 300u) << message;
  EXPECT_EQ(message, printable(message, 300)) << "one line of plain text";
}

const Family& any_family(std::mt19937_64& random) { return *families()[random() % families().size()]; }

TEST(ParserFuzz, RandomBytes) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 20'000; ++i) {
    std::string text(random() % 200, '\0');
    for (char& byte : text) byte = static_cast<char>(random());
    check(text);
    check(any_family(random).name + " " + text);
  }
}

TEST(ParserFuzz, ChangedRecipes) {
  std::mt19937_64 random(2);
  const std::string alphabet = "0123456789xX= \tabcdefghijklmnopqrstuvwxyz_-+,.\n\x80";
  for (int i = 0; i < 40'000; ++i) {
    std::string text = to_string(testing::random_recipe(any_family(random), random));
    for (std::uint64_t edits = 1 + random() % 4; edits > 0; --edits) {
      const std::size_t at = random() % text.size();
      switch (random() % 4) {
        case 0:
          text[at] = alphabet[random() % alphabet.size()];
          break;
        case 1:
          text.insert(at, 1, alphabet[random() % alphabet.size()]);
          break;
        case 2:
          if (text.size() > 1) text.erase(at, 1 + random() % 4);
          break;
        default:
          text.insert(at, text.substr(random() % text.size(), random() % 20));
          break;
      }
      if (text.empty()) text = "x";
    }
    check(text);
  }
}

TEST(ParserFuzz, CutRecipes) {
  std::mt19937_64 random(3);
  for (const Family* family : families()) {
    for (int i = 0; i < 20; ++i) {
      const std::string text = to_string(testing::random_recipe(*family, random));
      for (std::size_t length = 0; length <= text.size(); ++length) check(text.substr(0, length));
    }
  }
}

TEST(ParserFuzz, LongAndNumericText) {
  check(std::string(1 << 20, 'a'));
  check(std::string(1 << 20, ' '));
  for (const Family* family : families()) {
    const std::string& name = family->name;
    check(name + " " + std::string(1 << 20, 'k'));
    for (const Knob& knob : family->knobs) {
      check(name + " " + knob.name + "=" + std::string(1 << 16, '9'));
      for (const char* value :
           {"-1", "99999999999999999999", "0x10", "1e1", "+1", "", "x", "xx", "1x", "x1", "\xff\xfe"}) {
        check(name + " " + knob.name + "=" + value);
      }
    }
  }
}

}  // namespace
}  // namespace warpsmith
