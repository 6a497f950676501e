// Recipes: access by field, and the text form's round trip over every family.
#include "recipe/recipe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <sstream>

#include "machines.h"

namespace warpsmith {
namespace {

using testing::random_recipe;

class EveryRecipe : public ::testing::TestWithParam<const Family*> {
 protected:
  const Family& family_ = *GetParam();
};
INSTANTIATE_TEST_SUITE_P(Recipes, EveryRecipe, ::testing::ValuesIn(families()), testing::FamilyName());

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream stream(text);
  return {std::istream_iterator<std::string>(stream), {}};
}

TEST_P(EveryRecipe, StartsAtTheDefaults) {
  const Recipe recipe(family_);
  for (const KnobField* field : family_.fields()) EXPECT_EQ(recipe.get(field->name), field->default_value);
  EXPECT_EQ(to_short_string(recipe), family_.name);
}

TEST_P(EveryRecipe, FullAndShortTextRoundTrip) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 2000; ++i) {
    const Recipe recipe = random_recipe(family_, random);
    for (const std::string& text : {to_string(recipe), to_short_string(recipe)}) {
      const auto parsed = parse_recipe(text);
      ASSERT_TRUE(parsed.ok()) << text << ": " << parsed.error().message;
      EXPECT_EQ(*parsed, recipe) << text;
      EXPECT_EQ(text.find('\n'), std::string::npos);
    }
    EXPECT_EQ(words_of(to_string(recipe)).size(), family_.knobs.size() + 1);
    EXPECT_LE(words_of(to_short_string(recipe)).size(), family_.knobs.size() + 1);
  }
}

TEST_P(EveryRecipe, KnobsComeInAnyOrder) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 200; ++i) {
    const Recipe recipe = random_recipe(family_, random);
    auto words = words_of(to_string(recipe));
    std::shuffle(words.begin() + 1, words.end(), random);
    std::string text;
    for (const std::string& word : words) {
      text += "  ";
      text += word;
    }
    EXPECT_EQ(parse_recipe(text).value(), recipe) << text;
  }
}

TEST_P(EveryRecipe, DifferentRecipesHaveDifferentTexts) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 500; ++i) {
    const Recipe recipe = random_recipe(family_, random);
    Recipe other = recipe;
    const auto fields = family_.fields();
    const std::size_t field = random() % fields.size();
    other.set_choice(field, static_cast<int>(random() % fields[field]->values.size()));
    EXPECT_EQ(recipe == other, to_string(recipe) == to_string(other));
    EXPECT_EQ(recipe == other, to_short_string(recipe) == to_short_string(other));
  }
}

TEST_P(EveryRecipe, SetAndGetByName) {
  for (const KnobField* field : family_.fields()) {
    for (const int value : field->values) {
      Recipe recipe(family_);
      recipe.set(field->name, value);
      EXPECT_EQ(recipe.get(field->name), value);
    }
    Recipe recipe(family_);
    EXPECT_THROW(recipe.set(field->name, 123'456'789), std::out_of_range);
  }
  Recipe recipe(family_);
  EXPECT_THROW(recipe.get("no_such_field"), std::out_of_range);
  EXPECT_THROW(recipe.set("no_such_field", 1), std::out_of_range);
}

TEST_P(EveryRecipe, ErrorsNameWhatIsWrongAndWhatIsAccepted) {
  const Knob& knob = family_.knobs.front();
  const auto message = [&](const std::string& rest) {
    const auto parsed = parse_recipe(family_.name + " " + rest);
    EXPECT_FALSE(parsed.ok()) << rest;
    return parsed.ok() ? std::string() : parsed.error().message;
  };
  EXPECT_NE(message("no_such_knob=1").find("no_such_knob"), std::string::npos);
  EXPECT_NE(message("no_such_knob=1").find(knob.name), std::string::npos) << "lists the knobs";
  EXPECT_NE(message(knob.name).find(knob.name), std::string::npos);
  EXPECT_NE(message(knob.name + "=nonsense").find("nonsense"), std::string::npos);
  EXPECT_NE(message(knob.name + "=nonsense").find("accepted: "), std::string::npos);
  const std::string given = words_of(to_string(Recipe(family_)))[1];
  EXPECT_NE(message(given + " " + given).find("twice"), std::string::npos);
  message(given + "x1");
  message(given + "=");
  message(knob.name + "=");
}

TEST(ParseRecipe, RefusesUnknownFamiliesAndNothing) {
  EXPECT_EQ(parse_recipe("").error().kind, ErrorKind::bad_input);
  EXPECT_EQ(parse_recipe("  ").error().kind, ErrorKind::bad_input);
  const auto unknown = parse_recipe("sm70 tile=1");
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.error().kind, ErrorKind::bad_input);
  EXPECT_NE(unknown.error().message.find("sm70"), std::string::npos);
  for (const Family* family : families()) EXPECT_NE(unknown.error().message.find(family->name), std::string::npos);
}

}  // namespace
}  // namespace warpsmith
